//! Messages of a service about its listening address.

use std::net::SocketAddr;

/// What anyone who reaches a service can do, if machines other than its own may reach it.
pub(crate) fn warning(address: SocketAddr, anyone_can: &str) -> Option<String> {
    let is_local = address.ip().to_canonical().is_loopback();
    (!is_local).then(|| {
        format!("other machines may reach {address}, without authentication: anyone who does can {anyone_can}")
    })
}

#[cfg(test)]
mod tests {
    use super::warning;

    #[test]
    fn warning_is_of_addresses_that_other_machines_may_reach() {
        for address in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(warning(address.parse().unwrap(), "read files"), None, "{address}");
        }
        for address in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[2001:db8::1]:1"] {
            let text = warning(address.parse().unwrap(), "read files").unwrap();
            let expected = format!(
                "other machines may reach {address}, without authentication: anyone who does can read files"
            );
            assert_eq!(text, expected);
        }
    }
}
