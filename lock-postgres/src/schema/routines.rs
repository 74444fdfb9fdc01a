//! The routines of the script, by which a client knows those of the schema again.

use sha2::{Digest, Sha256};

/// SQL expression for the digest of a routine `p` in the language `l`: of its body, its rights, its language and
/// its settings.
pub(super) const DIGEST: &str = "encode(substr(sha256(convert_to(concat_ws(' ', \
    p.prosrc, p.prosecdef, l.lanname, array_to_string(p.proconfig, ' ')), 'UTF8')), 1, 8), 'hex')";

/// A routine as the script makes it.
pub(super) struct Routine<'a> {
    pub(super) name: &'a str,
    /// Text from the arguments to the settings.
    head: &'a str,
    body: &'a str,
}

/// Reads the routines of a script, in order.
pub(super) fn of(script: &str) -> impl Iterator<Item = Routine<'_>> {
    script.split("CREATE OR REPLACE ").filter_map(|text| {
        let text = text.strip_prefix("FUNCTION ").or_else(|| text.strip_prefix("PROCEDURE "))?;
        let (head, rest) = text.split_once(" AS $$")?;
        let (body, _) = rest.split_once("$$")?;
        let (name, head) = head.split_once('(')?;
        let (_, name) = name.trim_end_matches('"').rsplit_once('"')?;
        Some(Routine { name, head, body })
    })
}

impl Routine<'_> {
    /// Returns the name with the digest, as the server computes it by [`DIGEST`].
    pub(super) fn named_digest(&self) -> String {
        let definer = if self.head.contains("SECURITY DEFINER") { "t" } else { "f" };
        let (_, head) = self.head.split_once("LANGUAGE ").unwrap_or_default();
        let language = head.split_whitespace().next().unwrap_or_default();
        let settings = head.split("SET ").skip(1).filter_map(|setting| setting.split_once(" = "));
        let settings =
            settings.map(|(name, value)| format!("{name}={}", value.trim().trim_matches('\'')));
        let mut parts = vec![self.body.to_owned(), definer.to_owned(), language.to_owned()];
        let settings = settings.collect::<Vec<_>>().join(" ");
        parts.extend((!settings.is_empty()).then_some(settings));
        let digest = Sha256::digest(parts.join(" "));
        format!("{}:{}", self.name, hex::encode(&digest[..8]))
    }
}
