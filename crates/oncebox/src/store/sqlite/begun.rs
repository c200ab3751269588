//! What the server of an SQLite file has begun, kept in its lock file.
//!
//! A write to that file outlives the process and is not flushed. It takes a few microseconds; a transaction would wait for
//! the writer thread and for every flush before it. Where a lost claim is judged, the record is copied into the row of its
//! process, in the same transaction.
//!
//! Each role has two places, written in turns, and a reader takes what either of them names: a process that is killed in
//! the middle of a write leaves the other place whole. What has ended is named too long by this, and its token says that it
//! is over.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::event::NodeKey;
use crate::store::Role;
use crate::store::handling::begun::MARK_BYTES;

/// The bytes of one place: far more claims than a server has in hand.
const PLACE_BYTES: usize = 1024 * 1024;
/// The process, and how many bytes follow.
const HEAD_BYTES: usize = 20;
const ROLES: [Role; 3] = [Role::Alone, Role::Together, Role::Relay];

/// The record in the lock file.
#[derive(Debug)]
pub(in crate::store) struct BegunFile {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    record: Option<Record>,
    /// Which of the two places of each role is written next.
    turns: [u64; 3],
}

/// What one process has begun. A role that it has not announced has no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Record {
    pub(in crate::store) node: NodeKey,
    lists: [Option<Vec<u8>>; 3],
}

impl Record {
    /// The marks of a role, one behind the other.
    pub(in crate::store) fn marks(&self, role: Role) -> Option<Vec<u8>> {
        self.lists[place_of(role)].clone()
    }
}

impl BegunFile {
    /// Takes over the lock file and what an earlier process left in it.
    pub(in crate::store) fn open(file: File) -> io::Result<Self> {
        let record = read(&file)?;
        Ok(Self { file, state: Mutex::new(State { record, turns: [0; 3] }) })
    }

    pub(in crate::store) fn record(&self) -> Option<Record> {
        self.lock().record.clone()
    }

    /// Puts down what this process has begun in a role, in place of what it put down before. The record of an earlier
    /// process is dropped with the first write, so it must be in the database by then.
    pub(in crate::store) fn write(&self, node: NodeKey, role: Role, marks: &[u8]) -> io::Result<()> {
        if marks.len() > PLACE_BYTES - HEAD_BYTES {
            return Err(io::Error::other("too many claims have begun at once"));
        }
        let mut state = self.lock();
        if state.record.as_ref().is_none_or(|record| record.node != node) {
            self.file.set_len(0)?;
            *state = State { record: Some(Record { node, lists: [const { None }; 3] }), turns: [0; 3] };
        }
        let place = place_of(role);
        self.file.write_all_at(&with_head(node, marks), offset(place, state.turns[place] % 2))?;
        state.turns[place] += 1;
        if let Some(record) = &mut state.record {
            record.lists[place] = Some(marks.to_vec());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place_of(role: Role) -> usize {
    match role {
        Role::Alone => 0,
        Role::Together => 1,
        Role::Relay => 2,
    }
}

fn offset(place: usize, turn: u64) -> u64 {
    (place as u64 * 2 + turn) * PLACE_BYTES as u64
}

fn with_head(node: NodeKey, marks: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + marks.len());
    bytes.extend_from_slice(node.as_bytes());
    bytes.extend_from_slice(&u32::try_from(marks.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(marks);
    bytes
}

fn read(file: &File) -> io::Result<Option<Record>> {
    let mut record: Option<Record> = None;
    for place in ROLES.map(place_of) {
        for turn in [0, 1] {
            let Some((node, marks)) = read_place(file, offset(place, turn))? else { continue };
            let record = record.get_or_insert(Record { node, lists: [const { None }; 3] });
            if record.node == node {
                record.lists[place].get_or_insert_default().extend(marks);
            }
        }
    }
    Ok(record)
}

/// None where nothing was written; of a write that was cut off, what is there.
fn read_place(file: &File, offset: u64) -> io::Result<Option<(NodeKey, Vec<u8>)>> {
    let mut head = [0; HEAD_BYTES];
    if read_up_to(file, &mut head, offset)? < HEAD_BYTES || head[..16] == [0; 16] {
        return Ok(None);
    }
    let (node, length) = head.split_at(16);
    let node = NodeKey::from_bytes(node.try_into().map_err(io::Error::other)?);
    let length = u32::from_le_bytes(length.try_into().map_err(io::Error::other)?) as usize;
    let mut marks = vec![0; length.min(PLACE_BYTES - HEAD_BYTES)];
    let found = read_up_to(file, &mut marks, offset + HEAD_BYTES as u64)?;
    marks.truncate(found - found % MARK_BYTES);
    Ok(Some((node, marks)))
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut found = 0;
    while found < buffer.len() {
        match file.read_at(&mut buffer[found..], offset + found as u64) {
            Ok(0) => break,
            Ok(bytes) => found += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::files::open_private;

    const NODE: NodeKey = NodeKey::from_bytes([7; 16]);
    const NEXT: NodeKey = NodeKey::from_bytes([8; 16]);

    fn marks(of: &[u8]) -> Vec<u8> {
        of.iter().flat_map(|byte| [*byte; MARK_BYTES]).collect()
    }

    fn reopened(file: &File) -> BegunFile {
        BegunFile::open(file.try_clone().unwrap()).unwrap()
    }

    #[test]
    fn the_next_process_reads_what_had_begun() {
        let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
        let file = open_private(&db.file().unwrap().with_extension("lock")).unwrap();
        let begun = reopened(&file);
        assert_eq!(begun.record(), None);
        begun.write(NODE, Role::Alone, &[]).unwrap();
        begun.write(NODE, Role::Relay, &marks(&[1, 2])).unwrap();
        let record = reopened(&file).record().unwrap();
        assert_eq!(record.node, NODE);
        assert_eq!(record.marks(Role::Alone), Some(Vec::new()));
        assert_eq!(record.marks(Role::Together), None);
        assert_eq!(record.marks(Role::Relay), Some(marks(&[1, 2])));
    }

    #[test]
    fn a_write_that_was_cut_off_leaves_the_one_before() {
        let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
        let file = open_private(&db.file().unwrap().with_extension("lock")).unwrap();
        let begun = reopened(&file);
        begun.write(NODE, Role::Together, &marks(&[1, 2])).unwrap();
        begun.write(NODE, Role::Together, &marks(&[3, 4, 5])).unwrap();
        // Of the second one only the head and a part came through.
        file.set_len(offset(1, 1) + (HEAD_BYTES + MARK_BYTES + 3) as u64).unwrap();
        assert_eq!(reopened(&file).record().unwrap().marks(Role::Together), Some(marks(&[1, 2, 3])));
    }

    #[test]
    fn another_process_begins_with_an_empty_record() {
        let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
        let file = open_private(&db.file().unwrap().with_extension("lock")).unwrap();
        reopened(&file).write(NODE, Role::Alone, &marks(&[1])).unwrap();
        let next = reopened(&file);
        next.write(NEXT, Role::Relay, &marks(&[2])).unwrap();
        for record in [next.record().unwrap(), reopened(&file).record().unwrap()] {
            assert_eq!((record.node, record.marks(Role::Alone)), (NEXT, None));
            assert_eq!(record.marks(Role::Relay), Some(marks(&[2])));
        }
    }

    #[test]
    fn a_file_of_an_older_version_or_of_anything_has_no_record() {
        let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
        let file = open_private(&db.file().unwrap().with_extension("lock")).unwrap();
        file.write_all_at(b"12345\n", 0).unwrap();
        assert_eq!(reopened(&file).record(), None);
        file.write_all_at(&[9; 64], 0).unwrap();
        assert_eq!(reopened(&file).record().unwrap().marks(Role::Alone).unwrap().len() % MARK_BYTES, 0);
    }
}
