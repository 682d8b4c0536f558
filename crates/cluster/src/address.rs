//! The address of a scheduler.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Scheme of addresses of DataFusion clusters.
const SCHEME: &str = "df://";

/// Host and port of a scheduler, written `df://host:50050` or `host:50050`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerAddress {
    /// Name or IP address; one of IPv6 is in brackets.
    pub host: String,
    /// Port of its gRPC service.
    pub port: u16,
}

impl SchedulerAddress {
    /// The address as HTTP has it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
    }

    /// Returns true if the host is this machine, as far as its name tells.
    pub(crate) fn is_this_machine(&self) -> bool {
        let ip = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
    }
}

impl fmt::Display for SchedulerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}", self.host, self.port)
    }
}

impl FromStr for SchedulerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not the address of a scheduler: write df://host:50050");
        let place = text.strip_prefix(SCHEME).unwrap_or(text).trim_end_matches('/');
        let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::SchedulerAddress;

    #[test]
    fn from_str_reads_hosts_and_ports() {
        for (text, shown) in [
            ("df://scheduler:50050", "df://scheduler:50050"),
            ("127.0.0.1:1", "df://127.0.0.1:1"),
            ("df://[::1]:50050/", "df://[::1]:50050"),
        ] {
            assert_eq!(text.parse::<SchedulerAddress>().unwrap().to_string(), shown);
        }
        for text in
            ["", "scheduler", "df://scheduler", ":1", "a:b", "a:99999", "http://a:1", "a/b:1"]
        {
            assert!(text.parse::<SchedulerAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn is_this_machine_tells_loopback_from_other_hosts() {
        for (text, expected) in [
            ("localhost:1", true),
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("scheduler:1", false),
            ("10.0.0.1:1", false),
            ("0.0.0.0:1", false),
        ] {
            let address = text.parse::<SchedulerAddress>().unwrap();
            assert_eq!(address.is_this_machine(), expected, "{text}");
        }
    }
}
