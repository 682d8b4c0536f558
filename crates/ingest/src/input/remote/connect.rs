//! Connects to stores, with options from environment variables.

use std::env;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig,
};
use url::{Host, Url};

use super::store::Store;
use crate::error::StoreError;

/// Default time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of retries. Waits double, so that this takes some seconds.
const RETRIES: usize = 6;
/// Address of the metadata service, which gives cloud machines their credentials.
const METADATA: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)), 80);

/// Kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    S3,
    Google,
    Azure,
    /// A web server: one file, no listing.
    Web,
}

impl Kind {
    /// Prefix of its environment variables.
    fn prefix(self) -> &'static str {
        match self {
            Self::S3 => "aws_",
            Self::Google => "google_",
            Self::Azure => "azure_",
            Self::Web => "advisor_",
        }
    }

    /// Parts of the names of environment variables that hold credentials.
    fn credentials(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &[
                "aws_access_key_id",
                "aws_secret_access_key",
                "aws_web_identity_token_file",
                "aws_container_credentials",
                "aws_metadata_endpoint",
                "aws_skip_signature",
            ],
            Self::Google => &["google_", "service_account"],
            Self::Azure => &[
                "key",
                "sas",
                "client",
                "token",
                "msi",
                "identity",
                "emulator",
                "signature",
                "cli",
            ],
            Self::Web => &[""],
        }
    }
}

/// Connects to the store of a bucket or container. Sends no request.
pub(super) fn connect(
    kind: Kind,
    url: &Url,
    timeout: Option<Duration>,
) -> Result<Store, StoreError> {
    let limit = timeout.unwrap_or(TIMEOUT);
    let retry = RetryConfig {
        backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
        max_retries: RETRIES,
        // Allows a second attempt after a first that timed out, but not a third.
        retry_timeout: limit.mul_f64(1.5),
    };
    let mut client = client_options(kind, url);
    if let Some(timeout) = timeout {
        client =
            client.with_timeout(timeout).with_connect_timeout(timeout.min(Duration::from_secs(5)));
    }
    let anonymous = is_anonymous(kind);
    let address = url.to_string();
    let store: Arc<dyn ObjectStore> = match kind {
        Kind::S3 => {
            let mut builder = AmazonS3Builder::from_env().with_url(address);
            if anonymous {
                builder = builder.with_skip_signature(true);
            }
            Arc::new(builder.with_client_options(client).with_retry(retry).build()?)
        }
        Kind::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(address);
            if anonymous {
                builder = builder.with_skip_signature(true);
            }
            Arc::new(builder.with_client_options(client).with_retry(retry).build()?)
        }
        Kind::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(address);
            if anonymous {
                builder = builder.with_skip_signature(true);
            }
            Arc::new(builder.with_client_options(client).with_retry(retry).build()?)
        }
        Kind::Web => Arc::new(
            HttpBuilder::new()
                .with_url(address)
                .with_client_options(client)
                .with_retry(retry)
                .build()?,
        ),
    };
    Store::new(store)
}

/// Proxies, timeouts and the like from the environment: `AWS_TIMEOUT`, `AZURE_PROXY_URL`, ...
fn client_options(kind: Kind, url: &Url) -> ClientOptions {
    let mut options = ClientOptions::new();
    // Ranges must be of the stored bytes, not of bytes that the server transcodes.
    let encoding = if kind == Kind::Google { "gzip" } else { "identity" };
    let mut headers = HeaderMap::new();
    headers.insert("accept-encoding", HeaderValue::from_static(encoding));
    options = options.with_default_headers(headers);
    match kind {
        Kind::Web => return options.with_allow_http(url.scheme() == "http"),
        // The service account file names servers for tests.
        Kind::Google => options = options.with_allow_http(true),
        Kind::S3 | Kind::Azure => {}
    }
    for (name, value) in environment() {
        if let Some(Ok(key)) = name.strip_prefix(kind.prefix()).map(str::parse::<ClientConfigKey>) {
            options = options.with_config(key, value);
        }
    }
    options
}

/// Returns whether there are no credentials: then requests are anonymous.
fn is_anonymous(kind: Kind) -> bool {
    if kind == Kind::Web {
        return false;
    }
    let known = environment().any(|(name, _)| {
        let ours = name.starts_with(kind.prefix()) || name == "service_account";
        ours && kind.credentials().iter().any(|part| name.contains(part))
    });
    let file = kind == Kind::Google
        && env::home_dir().is_some_and(|home| {
            home.join(".config/gcloud/application_default_credentials.json").is_file()
        });
    !known && !file && TcpStream::connect_timeout(&METADATA, Duration::from_secs(1)).is_err()
}

/// Environment variables, with names in lower case.
fn environment() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| {
        Some((name.to_str()?.to_ascii_lowercase(), value.into_string().ok()?))
    })
}

/// Returns whether an address is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}
