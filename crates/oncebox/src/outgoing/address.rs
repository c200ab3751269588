//! Which addresses may be called: pure functions of an address, asked after every resolution.
//!
//! Operators may forward to loopback and to their own network, so for hosts they wrote only link-local and metadata
//! addresses are refused. Whatever a request names may reach the public internet and nothing else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Whose word a host is.
#[derive(Clone, Debug)]
pub enum Policy {
    /// The operator wrote it: everything but link-local and cloud-metadata addresses, unless listed.
    Operator {
        /// Ranges that are allowed all the same.
        allow: Vec<AddressRange>,
    },
    /// A request named it: public addresses only.
    Public,
}

impl Policy {
    /// True when a connection to this address may be made.
    pub fn admits(&self, address: IpAddr) -> bool {
        match self {
            Self::Operator { allow } => !is_metadata(address) || allow.iter().any(|range| range.contains(address)),
            Self::Public => is_public(address),
        }
    }
}

/// True for link-local addresses and those where clouds serve credentials, however they are wrapped.
pub fn is_metadata(address: IpAddr) -> bool {
    let address = unwrapped(address);
    METADATA.iter().any(|(first, prefix)| within(address, *first, *prefix))
}

/// True when the address belongs to the public internet.
pub fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    // Of IPv6 only 2000::/3 is given out, and of that some parts are special.
    let is_given_out = match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.segments()[0] >> 13 == 1,
    };
    is_given_out && !SPECIAL.iter().any(|(first, prefix)| within(address, *first, *prefix))
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(a: u16, b: u16, c: u16, h: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, h))
}

const METADATA: &[(IpAddr, u8)] = &[
    (v4(169, 254, 0, 0), 16),
    (v4(100, 100, 100, 200), 32),
    (v4(168, 63, 129, 16), 32),
    (v4(192, 0, 0, 192), 32),
    (v6(0xfe80, 0, 0, 0), 10),
    (v6(0xfd00, 0xec2, 0, 0), 32),
    (v6(0xfd20, 0xce, 0, 0x254), 128),
];

const SPECIAL: &[(IpAddr, u8)] = &[
    (v4(0, 0, 0, 0), 8),
    (v4(10, 0, 0, 0), 8),
    (v4(100, 64, 0, 0), 10),
    (v4(127, 0, 0, 0), 8),
    (v4(168, 63, 129, 16), 32),
    (v4(169, 254, 0, 0), 16),
    (v4(172, 16, 0, 0), 12),
    (v4(192, 0, 0, 0), 24),
    (v4(192, 0, 2, 0), 24),
    (v4(192, 31, 196, 0), 24),
    (v4(192, 52, 193, 0), 24),
    (v4(192, 88, 99, 0), 24),
    (v4(192, 168, 0, 0), 16),
    (v4(192, 175, 48, 0), 24),
    (v4(198, 18, 0, 0), 15),
    (v4(198, 51, 100, 0), 24),
    (v4(203, 0, 113, 0), 24),
    (v4(224, 0, 0, 0), 3),
    (v6(0x2001, 0, 0, 0), 23),
    (v6(0x2001, 0xdb8, 0, 0), 32),
    (v6(0x2002, 0, 0, 0), 16),
    (v6(0x2620, 0x4f, 0x8000, 0), 48),
    (v6(0x3fff, 0, 0, 0), 20),
];

/// The IPv4 address inside an IPv6 one (mapped, compatible, translated, 6to4), else the address itself.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let bits = v6.to_bits();
    let low = |shift: u32| {
        let [.., a, b, c, d] = (bits >> shift).to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    let starts = |first: u128, prefix: u32| bits >> (128 - prefix) == first;
    match () {
        () if starts(0xffff, 96) || starts(0, 96) && bits > 1 => low(0),
        () if starts(0x64_ff9b_0000_0000_0000_0000, 96) || starts(0x0064_ff9b_0001, 48) => low(0),
        () if starts(0x2002, 16) => low(80),
        () => address,
    }
}

fn within(address: IpAddr, first: IpAddr, prefix: u8) -> bool {
    IpNet::new(first, prefix).is_ok_and(|net| net.contains(&address.to_canonical()))
}

/// A range of addresses, such as `169.254.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange(IpNet);

impl AddressRange {
    /// Reads `10.0.0.0/8`, `fe80::/10` or a single address; bits behind the prefix must be zero.
    pub fn parse(text: &str) -> Option<Self> {
        let net = text.parse::<IpAddr>().map(IpNet::from).or_else(|_no_address| text.parse()).ok()?;
        (net == net.trunc()).then_some(Self(net))
    }

    /// True when the address lies in the range; an IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

#[cfg(test)]
mod tests;
