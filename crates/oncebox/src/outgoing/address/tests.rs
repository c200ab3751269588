//! The table of refused addresses, and what must hold for any address.

use proptest::prelude::*;

use super::*;

const OPERATOR: Policy = Policy::Operator { allow: Vec::new() };

fn check(addresses: &[&str], operator: bool, public: bool) {
    for text in addresses {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(OPERATOR.admits(address), operator, "operator, {text}");
        assert_eq!(Policy::Public.admits(address), public, "public, {text}");
    }
}

#[test]
fn the_table() {
    check(&["8.8.8.8", "1.1.1.1", "52.94.236.248", "2600:1f00::1", "2a00:1450:4001:81b::200e"], true, true);
    check(
        &["127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"],
        true,
        false,
    );
    check(&["100.64.0.1", "192.0.0.8", "198.18.0.1", "198.19.255.255", "240.0.0.1", "224.0.0.1"], true, false);
    check(&["255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1"], true, false);
    check(&["::1", "::", "::ffff:127.0.0.1", "::127.0.0.1", "fc00::1", "fd12::1", "ff02::1", "100::1"], true, false);
    check(
        &["64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "5f00::1", "2001:db8::1", "3fff::1", "2001::1"],
        true,
        false,
    );
    check(
        &["169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"],
        false,
        false,
    );
    check(&["::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254", "64:ff9b::a9fe:a9fe"], false, false);
    check(&["2002:a9fe:a9fe::1", "64:ff9b:1::a9fe:a9fe", "fd20:ce::254", "192.0.0.192"], false, false);
    check(
        &["172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255"],
        true,
        true,
    );
}

#[test]
fn a_listed_range_is_allowed() {
    let policy = Policy::Operator { allow: vec![AddressRange::parse("169.254.0.0/16").unwrap()] };
    assert!(policy.admits("169.254.169.254".parse().unwrap()));
    assert!(policy.admits("::ffff:169.254.169.254".parse().unwrap()));
    assert!(!policy.admits("fe80::1".parse().unwrap()));
}

proptest! {
    #[test]
    fn what_a_request_may_reach_an_operator_may_too(bits in any::<u128>(), short in any::<u32>()) {
        for address in [IpAddr::V6(Ipv6Addr::from_bits(bits)), IpAddr::V4(Ipv4Addr::from_bits(short))] {
            prop_assert!(!is_public(address) || OPERATOR.admits(address), "{address}");
        }
    }

    #[test]
    fn wrapping_an_address_opens_nothing(short in any::<u32>()) {
        let bare = IpAddr::V4(Ipv4Addr::from_bits(short));
        let low = u128::from(short);
        let wrappings = [low | 0xffff_0000_0000, 0x64_ff9b_u128 << 96 | low, 0x2002_u128 << 112 | low << 80];
        for wrapped in wrappings.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))) {
            prop_assert!(is_public(bare) || !is_public(wrapped), "{wrapped}");
            prop_assert!(!is_metadata(bare) || is_metadata(wrapped), "{wrapped}");
        }
    }
}
