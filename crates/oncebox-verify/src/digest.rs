//! The keys of fixed size by which requests are compared, and what is hashed into them.
//!
//! A part is hashed with its length before it, so that `a:b` + `c` and `a` + `b:c` never meet, and bytes are compared as
//! bytes: no trimming, folding or normalising.

use ring::digest::{Context, SHA256, digest};

/// SHA-256 of some bytes.
pub type Digest = [u8; 32];

/// Hashes bytes.
pub fn sha256(bytes: &[u8]) -> Digest {
    kept(digest(&SHA256, bytes).as_ref())
}

/// An id of several parts as it is compared: each part behind its length, so that `a:b` + `c` is not `a` + `b:c`.
pub fn joined_id<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let behind_its_length = |part: &str| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat();
    parts.into_iter().flat_map(behind_its_length).collect()
}

/// What makes two requests one event, as 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity([u8; 16]);

impl Identity {
    /// The sender's id, signed.
    pub fn of_id(source: &str, id: &[u8]) -> Self {
        Self(key(b"id", &[source.as_bytes(), id]))
    }

    /// The sender's id, unsigned, with the body it came with.
    pub fn of_id_and_body(source: &str, id: &[u8], body: &Digest) -> Self {
        Self(key(b"id+body", &[source.as_bytes(), id, body]))
    }

    /// The body alone.
    pub fn of_body(source: &str, body: &Digest) -> Self {
        Self(key(b"body", &[source.as_bytes(), body]))
    }

    /// An arrival that is an event of its own; the maker's bytes must never repeat.
    pub fn of_arrival(source: &str, unique: &[u8; 16]) -> Self {
        Self(key(b"arrival", &[source.as_bytes(), unique]))
    }

    /// Another body under this identity.
    pub fn of_conflict(&self, body: &Digest) -> Self {
        Self(key(b"conflict", &[&self.0, body]))
    }

    /// The bytes of the unique key.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The second referee's key: something that the same source sent before, such as the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Bytes alone.
    pub fn of_body(source: &str, body: &Digest) -> Self {
        Self(key(b"repeat", &[source.as_bytes(), body]))
    }

    /// Bytes and type, for senders whose types may share one body.
    pub fn of_type_and_body(source: &str, event_type: &str, body: &Digest) -> Self {
        Self(key(b"repeat+type", &[source.as_bytes(), event_type.as_bytes(), body]))
    }

    /// A type, whatever it comes with.
    pub fn of_type(source: &str, event_type: &str) -> Self {
        Self(key(b"type", &[source.as_bytes(), event_type.as_bytes()]))
    }

    /// Something that was signed for one delivery, such as a token.
    pub fn of_delivery(source: &str, signed: &[u8]) -> Self {
        Self(key(b"delivery", &[source.as_bytes(), signed]))
    }

    /// The same, where it tells one delivery from another only together with the bytes, such as a time.
    pub(crate) fn of_delivery_and_body(source: &str, signed: &[u8], body: &Digest) -> Self {
        Self(key(b"delivery+body", &[source.as_bytes(), signed, body]))
    }

    /// One of a few places that belong to this.
    pub fn place(&self, number: u8) -> Self {
        Self(key(b"place", &[&self.0, &[number]]))
    }

    /// The bytes of the unique key.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// A key of 16 bytes: equal exactly when kind and parts are.
// Parts of usual length are laid side by side first: hashing eight small pieces costs twice as much as one.
pub fn key(kind: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let all = || std::iter::once(kind).chain(parts.iter().copied());
    let mut laid_out = [0; 256];
    let digest = match lay_out(all(), &mut laid_out) {
        Some(length) => sha256(&laid_out[..length]),
        None => {
            let mut context = Context::new(&SHA256);
            for part in all() {
                context.update(&(part.len() as u64).to_be_bytes());
                context.update(part);
            }
            kept(context.finish().as_ref())
        }
    };
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    short
}

/// Writes each part behind its length; none when there is no room.
fn lay_out<'a>(parts: impl Iterator<Item = &'a [u8]>, into: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    for part in parts {
        let (length, end) = (at + 8, at + 8 + part.len());
        into.get_mut(at..length)?.copy_from_slice(&(part.len() as u64).to_be_bytes());
        into.get_mut(length..end)?.copy_from_slice(part);
        at = end;
    }
    Some(at)
}

fn kept(bytes: &[u8]) -> Digest {
    let mut digest = [0; 32];
    digest.copy_from_slice(bytes);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_parts_are_hashed_as_short_ones_are() {
        for length in (0..40).chain(200..300) {
            let part = vec![b'x'; length];
            let mut text = Vec::new();
            for part in [b"id".as_slice(), b"stripe", &part] {
                text.extend((part.len() as u64).to_be_bytes());
                text.extend(part);
            }
            assert_eq!(key(b"id", &[b"stripe", &part]), sha256(&text)[..16], "{length}");
        }
    }
}
