//! A certificate authority for one test, and the certificates that it signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::new_folder;
use crate::process::require;

/// A month, which is plenty for a test; platforms refuse certificates that live for years.
const DAYS: &str = "30";

/// Configuration of the two certificates. The system's own file differs between systems. The server's certificate
/// also names it a client, since it connects to other servers.
const CONFIG: &str = "\
[req]
distinguished_name = nobody
[nobody]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
";

/// A folder with the certificate of an authority, and one for `localhost` and 127.0.0.1 that it signed.
#[derive(Debug)]
pub(crate) struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes the certificates.
    ///
    /// # Panics
    /// If `openssl` is not installed.
    pub(crate) fn new() -> Self {
        let folder = new_folder();
        make_certificates(folder.path());
        Self { folder }
    }

    /// The authority's certificate, a PEM file.
    pub(crate) fn ca_path(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A PEM file with the server's key and certificate, as Java reads them.
    pub(crate) fn key_store(&self) -> PathBuf {
        let file = |name| fs::read_to_string(self.folder.path().join(name)).expect("just made");
        let path = self.folder.path().join("server.pem");
        fs::write(&path, file("server.key") + &file("server.crt"))
            .expect("the folder can be written");
        path
    }

    /// Returns the settings of a Redis server that speaks TLS at `port`, also with other servers.
    pub(crate) fn settings(&self, port: u16) -> Vec<(&'static str, String)> {
        let file = |name| self.folder.path().join(name).display().to_string();
        vec![
            ("tls-port", port.to_string()),
            ("tls-auth-clients", "no".to_owned()),
            ("tls-replication", "yes".to_owned()),
            ("tls-cert-file", file("server.crt")),
            ("tls-key-file", file("server.key")),
            ("tls-ca-cert-file", file("ca.crt")),
        ]
    }
}

/// Converts settings to arguments of a server.
pub(crate) fn arguments(settings: &[(&str, String)]) -> Vec<String> {
    settings.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
}

/// Makes `ca.crt`, `server.crt` and `server.key` in `folder`.
pub(crate) fn make_certificates(folder: &Path) {
    require("openssl", "openssl", "openssl");
    fs::write(folder.join("openssl.cnf"), CONFIG).expect("the folder can be written");
    let authority = "req -x509 -newkey rsa:2048 -nodes -subj /CN=Leasehold-tests \
                     -extensions authority -keyout ca.key -out ca.crt -config openssl.cnf -days";
    let request = "req -new -newkey rsa:2048 -nodes -subj /CN=localhost \
                   -keyout server.key -out server.csr -config openssl.cnf";
    let certificate = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -set_serial 2 \
                       -extfile openssl.cnf -extensions server -out server.crt -days";
    openssl(folder, &format!("{authority} {DAYS}"));
    openssl(folder, request);
    openssl(folder, &format!("{certificate} {DAYS}"));
}

fn openssl(folder: &Path, args: &str) {
    let output = Command::new("openssl")
        .args(args.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("openssl can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {args}: {said}");
}
