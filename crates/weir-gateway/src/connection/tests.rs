//! What clients are counted by.

use crate::connection::AddressText;

#[test]
fn an_ipv6_network_counts_as_one_client() {
    let network = |address: &str| {
        let address = AddressText::new(address.parse().expect("an address"));
        address.network().to_vec()
    };
    assert_eq!(network("192.0.2.1"), [192, 0, 2, 1]);
    assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff::"));
    assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
}
