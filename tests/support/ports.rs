//! Ports for servers of tests.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering};

/// The ports that systems leave to servers: Linux gives connections and listeners on port 0 those from 32768.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port that nothing listens on, and that the system gives to no other program. A port that the system chose for a
/// listener on port 0 is free to be chosen again: another test then answers, or the connection of a client that waits
/// for its server connects to itself.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    // Test programs that run at once start far from each other.
    let first = std::process::id() % u32::from(count / 100) * 100;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = (first + u32::from(number)) % u32::from(count);
        let port = PORTS.start + u16::try_from(offset).unwrap();
        // A connection instead of a listener looks for servers: a program that another test starts at this moment inherits a
        // listener until its `exec`, and the client that waits for the server would connect to that listener.
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return port;
        }
        assert!(number < count, "no port from {PORTS:?} is free");
    }
}
