//! Addresses without credentials and signatures, for messages and reports.

/// An address without parts that may be secret: query, fragment, user name and password.
pub(crate) fn without_secrets(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    // In other schemes `?` and `#` are characters of a key, unless a signature follows them.
    let at = rest.find(['?', '#']).filter(|at| is_web || rest[*at..].contains("sig"));
    let rest = &rest[..at.unwrap_or(rest.len())];
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = match host.rsplit_once('@') {
        // abfss has a container before its `@`.
        Some((who, host)) if is_web || who.contains(':') => host,
        _ => host,
    };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_secrets_removes_signatures_and_credentials() {
        let shown = |text| without_secrets(text);
        assert_eq!(shown("https://host/a/b.json?X-Amz-Signature=1#f"), "https://host/a/b.json");
        assert_eq!(shown("https://me:pass@host?sig=2"), "https://host");
        assert_eq!(shown("https://host/a@b/c"), "https://host/a@b/c");
        assert_eq!(shown("s3://bucket/what?/#1"), "s3://bucket/what?/#1");
        assert_eq!(shown("s3://key:secret@bucket/a"), "s3://bucket/a");
        assert_eq!(shown("az://files/a.json?sv=1&sig=secret"), "az://files/a.json");
        assert_eq!(
            shown("abfss://files@me.dfs.core.windows.net/x"),
            "abfss://files@me.dfs.core.windows.net/x"
        );
    }
}
