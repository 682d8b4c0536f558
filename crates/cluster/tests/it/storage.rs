//! A run in a bucket: a real S3 server on this machine, which `.ci/storage` installs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::support::{Cluster, RANKS, check, free_port, run, stderr, storage, wait_until};

/// A server that runs until it is dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let port = free_port();
        let mut command = Command::new(storage().join("bin/python"));
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { process: command.spawn().unwrap(), port };
        wait_until("moto listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    fn put(&self, target: &str, body: &[u8]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
            self.port
        )
        .unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already, or goes now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "needs ADVISOR_STORAGE and ADVISOR_PROGRAM"]
fn run_in_a_bucket_is_mapped_to_the_bucket() {
    let server = Server::start();
    server.put("/bucket", b"");
    for entry in run().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        server.put(&format!("/bucket/run/{name}"), &std::fs::read(&path).unwrap());
    }
    let url = format!("http://127.0.0.1:{}", server.port);
    let env = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", "AKIATEST"),
        ("AWS_SECRET_ACCESS_KEY", "HUSHHUSH"),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let (address, mapped) = ("s3://bucket/run/", "s3://bucket/mapped/");
    let cluster = Cluster::start_with(2, &env);
    for known in ["", &format!(", {RANKS} of which were mapped before")] {
        let output = cluster.client(address, mapped).output().unwrap();
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        assert!(text.contains(&format!("{RANKS} traces{known}; ")), "{text}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{mapped}\n"));
    }
    assert!(cluster.tasks(0) > 0 && cluster.tasks(1) > 0);
    assert_eq!(check(address, &["--from", mapped], &env), check(address, &[], &env));
}
