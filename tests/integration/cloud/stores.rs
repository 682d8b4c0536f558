//! Real servers: moto for S3, Azurite for Azure; moto and gcp-storage-emulator for Google.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::ObjectStoreExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;

use super::busy::{Answer, BusyStore};
use super::{command, error, report, stdout};
use crate::support::ports::free_port;
use crate::support::sandbox::Sandbox;

/// The folder of the servers: `ADVISOR_STORAGE`, or where `.ci/storage` puts them.
fn installed() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "the one place where this test reads it")]
    let set = std::env::var("ADVISOR_STORAGE").ok();
    let default = std::env::home_dir().unwrap_or_default().join(".cache/trace-advisor/storage");
    let path = set.map_or(default, PathBuf::from);
    assert!(
        path.is_dir(),
        "there are no servers at {}: set ADVISOR_STORAGE to what .ci/storage prints",
        path.display()
    );
    path
}

/// A server that runs until it is dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let port = free_port();
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { process: command.spawn().unwrap(), port };
        for _ in 0..1200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return server;
            }
            assert!(server.process.try_wait().unwrap().is_none(), "{command:?} ended");
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{command:?} does not listen");
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A request without any ceremony.
    fn ask(&self, method: &str, target: &str, more: &str, body: &[u8]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n{more}\r\n",
            self.port
        )
        .unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.lines().next().unwrap_or_default().to_owned();
        assert!(status.contains(" 20"), "{method} {target}: {answer}");
    }

    /// Puts the files of a folder into a bucket of a server that speaks S3, for everybody to read.
    fn publish(&self, folder: &Path, to: &str) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let target = format!("{to}{}", path.file_name().unwrap().to_string_lossy());
            self.ask("PUT", &target, "x-amz-acl: public-read\r\n", &std::fs::read(&path).unwrap());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already, or goes now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn moto(folder: &Path) -> Server {
    Server::start(|port| {
        let mut command = Command::new(folder.join("bin/python"));
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    })
}

/// Puts the files of a folder, and of those in it, into a store.
fn upload(store: &Arc<dyn ObjectStore>, folder: &Path, prefix: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let key = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            upload(store, &path, &format!("{key}/"));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        runtime.block_on(store.put(&key.as_str().into(), bytes.into())).unwrap();
    }
}

/// Checks a store that has the small run at `root` + `deep/er/run/`: the folder, those above it, and one file.
fn reads_a_run(sandbox: &Sandbox, root: &str, env: &[(&str, &str)]) {
    let local = report(sandbox, "run", &[]);
    let folder = format!("{root}deep/er/run");
    assert_eq!(report(sandbox, &format!("{folder}/"), env), local);
    // A folder is recognized without a trailing slash, and folders above it do not hold other traces.
    assert_eq!(report(sandbox, &folder, env), local);
    let above = report(sandbox, &format!("{root}deep"), env);
    assert_eq!(
        above["findings"].as_array().unwrap().len(),
        local["findings"].as_array().unwrap().len()
    );
    let file = local["run"]["sources"][0]["file"].as_str().unwrap();
    let one = report(sandbox, &format!("{folder}/{file}"), env);
    assert_eq!(one, report(sandbox, &format!("run/{file}"), &[]));

    let text = error(sandbox, &["check", &format!("{folder}/no.json")], env);
    assert!(text.contains("there is neither an object nor a folder of this name"), "{text}");
    let text = error(sandbox, &["check", &format!("{root}nothing/")], env);
    assert!(text.contains("there is neither an object nor a folder of this name"), "{text}");
}

/// Checks the export of the small run in a store.
fn reads_an_export(
    sandbox: &Sandbox,
    store: &Arc<dyn ObjectStore>,
    root: &str,
    env: &[(&str, &str)],
) {
    assert!(sandbox.run(&["export", "run", "--to", "export"]).status.success());
    upload(store, &sandbox.path("export"), "export/");
    let export = format!("{root}export/");
    assert_eq!(report(sandbox, &export, env), report(sandbox, "run", &[]));
    // Tables that are read while they are asked about.
    let query = "SELECT rank, name, sum(dur_ns) FROM kernels GROUP BY 1, 2 ORDER BY 1, 2";
    let ask = |run: &str, more: &[&str], env: &[(&str, &str)]| {
        let args = [&["sql", run, query], more].concat();
        stdout(&command(sandbox, &args).envs(env.iter().copied()).output().unwrap())
    };
    let streamed = ask(&export, &["--memory-limit", "1KB"], env);
    assert!(streamed.lines().count() > 5, "{streamed}");
    assert_eq!(streamed, ask("run", &[], &[]));

    upload(store, &sandbox.path("export/memcpys"), "export/kernels/");
    let text = error(sandbox, &["check", &export], env);
    assert!(text.contains("the export "), "{text}");
}

/// Maps the small run in a store to the same store, by workers that do not know of each other.
fn maps_a_run(sandbox: &Sandbox, root: &str, env: &[(&str, &str)]) {
    let (run, to) = (format!("{root}deep/er/run/"), format!("{root}mapped"));
    let ask = |args: &[&str]| command(sandbox, args).envs(env.iter().copied()).output().unwrap();
    let check = ["check", &run, "--exit-zero", "--format", "json"];
    let text = error(sandbox, &[&check[..], &["--from", &to]].concat(), env);
    assert!(text.contains("lacks 2 of the 2 traces"), "{text}");
    std::thread::scope(|scope| {
        for shard in ["1/2", "2/2", "1/2", "1/1"] {
            let (run, to, ask) = (&run, &to, &ask);
            scope.spawn(move || {
                let mapped = ask(&["map", run, "--shard", shard, "--to", to]);
                assert!(mapped.status.success(), "{}", String::from_utf8_lossy(&mapped.stderr));
            });
        }
    });
    let again = ask(&["map", &run, "--to", &to]);
    let text = String::from_utf8(again.stderr).unwrap();
    assert!(text.contains("2 traces, 2 of which were mapped before; 0.0 MB"), "{text}");
    let expected = stdout(&ask(&check));
    assert!(expected.contains("dataloader-wait"), "{expected}");
    assert_eq!(stdout(&ask(&[&check[..], &["--from", &to]].concat())), expected);
    // A watch finds the run, and the traces that are mapped.
    let watch = ["watch", &run, "--every", "1s", "--checks", "1", "--map-to", &to];
    let watched = stdout(&ask(&[&watch[..], &["--report", "last.json"]].concat()));
    assert!(watched.contains("run/: first check\n"), "{watched}");
    let last = fs::read_to_string(sandbox.path("last.json")).unwrap();
    assert_eq!(last.trim(), expected.trim());
}

/// The bucket of a server that speaks S3.
fn s3(url: &str) -> Arc<dyn ObjectStore> {
    let builder = AmazonS3Builder::new()
        .with_endpoint(url)
        .with_bucket_name("bucket")
        .with_access_key_id("AKIATEST")
        .with_secret_access_key("HUSHHUSH")
        .with_allow_http(true);
    Arc::new(builder.build().unwrap())
}

/// The environment of a program that reads it.
fn aws(url: &str) -> [(&str, &str); 4] {
    [
        ("AWS_ENDPOINT_URL", url),
        ("AWS_ACCESS_KEY_ID", "AKIATEST"),
        ("AWS_SECRET_ACCESS_KEY", "HUSHHUSH"),
        ("AWS_ALLOW_HTTP", "true"),
    ]
}

#[test]
#[ignore = "needs ADVISOR_STORAGE"]
fn s3_bucket_reads_like_a_folder() {
    let folder = installed();
    let sandbox = Sandbox::with_run();
    let server = moto(&folder);
    server.ask("PUT", "/bucket", "", b"");
    let url = server.url();
    let store = s3(&url);
    upload(&store, &sandbox.path("run"), "deep/er/run/");
    let env = aws(&url);
    reads_a_run(&sandbox, "s3://bucket/", &env);
    reads_an_export(&sandbox, &store, "s3://bucket/", &env);
    maps_a_run(&sandbox, "s3://bucket/", &env);
    let text = error(&sandbox, &["map", "run", "--to", "s3://no-such-bucket/mapped/"], &env);
    assert!(text.contains("(NoSuchBucket"), "{text}");
    let anonymous = [
        ("AWS_ENDPOINT", url.as_str()),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let text = error(&sandbox, &["check", "s3://bucket/deep/er/run/"], &anonymous);
    assert!(text.contains("the store does not let us read it"), "{text}");
    server.publish(&sandbox.path("run"), "/bucket/public/");
    assert_eq!(report(&sandbox, "s3://bucket/public/", &anonymous), report(&sandbox, "run", &[]));

    let text = error(&sandbox, &["check", "s3://no-such-bucket/run/"], &env);
    assert!(text.contains("(NoSuchBucket"), "{text}");
    let text = error(&sandbox, &["check", "s3://bucket/deep/"], &env[..3]);
    assert!(text.contains("AWS_ALLOW_HTTP=true"), "{text}");
    // From now on the server looks at who asks.
    server.ask("POST", "/moto-api/reset-auth", "", b"0");
    for run in ["s3://bucket/deep/er/run/", "s3://bucket/deep/er/run/a.json"] {
        let text = error(&sandbox, &["check", run], &env);
        assert!(text.contains("the store does not let us read it (InvalidAccessKeyId"), "{text}");
        assert!(
            text.contains("help: set AWS_ACCESS_KEY_ID") && !text.contains("HUSHHUSH"),
            "{text}"
        );
    }
}

/// A third of all requests fail, half of these after they took effect. Nothing is lost or written twice.
#[test]
#[ignore = "needs ADVISOR_STORAGE"]
fn busy_bucket_loses_nothing() {
    let folder = installed();
    let sandbox = Sandbox::with_run();
    let server = moto(&folder);
    server.ask("PUT", "/bucket", "", b"");
    let store = s3(&server.url());
    upload(&store, &sandbox.path("run"), "deep/er/run/");
    let refused_in_a_row: Mutex<HashMap<String, usize>> = Mutex::default();
    let busy = BusyStore::start(server.port, Duration::from_millis(5), move |request, number| {
        let answer = match number % 6 {
            2 => Answer::Refused,
            4 => Answer::ServedAndRefused,
            _ => Answer::Served,
        };
        // Clients give up after some attempts.
        let mut refused = refused_in_a_row.lock().unwrap();
        let refused = refused.entry(request.to_owned()).or_default();
        let is_served = answer == Answer::Served || *refused == 2;
        *refused = if is_served { 0 } else { *refused + 1 };
        if is_served { Answer::Served } else { answer }
    });
    maps_a_run(&sandbox, "s3://bucket/", &aws(&busy.url()));
    assert!(busy.refused() > 10, "{} requests failed", busy.refused());

    // A bucket that can be read and takes no writes.
    let full = BusyStore::start(server.port, Duration::ZERO, |request, _| {
        let is_read = request.starts_with("GET ") || request.starts_with("HEAD ");
        if is_read { Answer::Served } else { Answer::Refused }
    });
    let map = ["map", "s3://bucket/deep/er/run/", "--to", "s3://bucket/full/", "--timeout", "2"];
    let text = error(&sandbox, &map, &aws(&full.url()));
    assert!(text.contains("s3://bucket/full/") && text.contains("503"), "{text}");
    let check = ["check", "s3://bucket/deep/er/run/", "--from", "s3://bucket/full/"];
    let text = error(&sandbox, &check, &aws(&server.url()));
    assert!(text.contains("lacks 2 of the 2 traces"), "{text}");
}

#[test]
#[ignore = "needs ADVISOR_STORAGE"]
fn azure_container_reads_like_a_folder() {
    let folder = installed();
    let sandbox = Sandbox::with_run();
    let server = Server::start(|port| {
        let mut command = Command::new("node");
        command.arg(folder.join("node_modules/azurite/dist/src/blob/main.js")).args([
            "--silent",
            "--inMemoryPersistence",
            "--disableTelemetry",
            "--skipApiVersionCheck",
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            &port.to_string(),
        ]);
        command
    });
    let url = server.url();
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/integration/cloud/container.py");
    let made = Command::new(folder.join("bin/python")).arg(script).args([&url, "files"]).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let account = format!("{url}/devstoreaccount1");
    let store: Arc<dyn ObjectStore> = Arc::new(
        MicrosoftAzureBuilder::new()
            .with_account("devstoreaccount1")
            .with_access_key(KEY)
            .with_endpoint(account)
            .with_container_name("files")
            .with_allow_http(true)
            .build()
            .unwrap(),
    );
    upload(&store, &sandbox.path("run"), "deep/er/run/");
    let env = [("AZURE_STORAGE_USE_EMULATOR", "true"), ("AZURITE_BLOB_STORAGE_URL", url.as_str())];
    reads_a_run(&sandbox, "az://files/", &env);
    reads_a_run(&sandbox, "abfss://files/", &env);
    maps_a_run(&sandbox, "az://files/", &env);
    let text = error(&sandbox, &["check", "az://no-such-container/run/"], &env);
    assert!(text.contains("(ContainerNotFound"), "{text}");
    let wrong = [env[0], env[1], ("AZURE_STORAGE_ACCOUNT_KEY", "U0VDUkVU")];
    let text = error(&sandbox, &["check", "az://files/deep/er/run/"], &wrong);
    assert!(text.contains("the store does not let us read it"), "{text}");
    assert!(text.contains("AZURE_STORAGE_ACCOUNT_KEY") && !text.contains("U0VDUkVU"), "{text}");
}

/// The key that every Azurite has.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Google's XML interface is that of S3, which moto speaks.
#[test]
#[ignore = "needs ADVISOR_STORAGE"]
fn google_bucket_reads_like_a_folder() {
    let folder = installed();
    let sandbox = Sandbox::with_run();
    let server = moto(&folder);
    server.ask("PUT", "/bucket", "", b"");
    server.publish(&sandbox.path("run"), "/bucket/deep/er/run/");
    let url = server.url();
    let env = [("GOOGLE_BASE_URL", url.as_str()), ("GOOGLE_SKIP_SIGNATURE", "true")];
    reads_a_run(&sandbox, "gs://bucket/", &env);
    let text = error(&sandbox, &["check", "gs://no-such-bucket/run/"], &env);
    assert!(text.contains("(NoSuchBucket"), "{text}");
}
