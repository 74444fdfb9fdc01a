//! Two certificate authorities for one test, and the certificates that they signed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use super::postgres_server::PostgresServer;
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

/// Authority and validity of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// By the authority that servers trust at first.
    Well,
    /// By the same authority, until yesterday.
    Expired,
    /// By the other authority.
    ByOther,
}

/// A folder with the certificate of an authority, one for `localhost` and 127.0.0.1 that it signed, and a client's.
///
/// Servers that demand a certificate of their clients trust the authorities in [`trusted`](Self::trusted).
#[derive(Clone, Debug)]
pub struct Certificates {
    folder: PathBuf,
    _owned: Option<Arc<TempDir>>,
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

impl Certificates {
    /// Makes the certificates of two authorities and a server.
    ///
    /// # Panics
    /// If `openssl` is not installed.
    pub fn new() -> Self {
        let folder = new_folder();
        make_certificates(folder.path());
        Self { folder: folder.path().to_owned(), _owned: Some(Arc::new(folder)) }
    }

    /// Returns the certificates in a folder.
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), _owned: None }
    }

    /// Returns the path of the authority's certificate, a PEM file.
    pub fn ca_path(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// Returns the path of the authorities of clients, a PEM file for servers.
    pub fn trusted(&self) -> PathBuf {
        self.folder.join("trusted.crt")
    }

    /// Lets servers trust only clients whose certificates the other authority signed, once they read the file again.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn trust_only_other(&self) {
        self.copy("other.crt", "trusted.crt");
    }

    /// Replaces the client's certificate and key, and returns the paths of the two PEM files.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn sign_client(&self, signed: Signed) -> [PathBuf; 2] {
        let (authority, days) = match signed {
            Signed::Well => ("ca", DAYS),
            Signed::Expired => ("ca", "-1"),
            Signed::ByOther => ("other", DAYS),
        };
        sign(&self.folder, "client", authority, days);
        ["client.crt", "client.key"].map(|name| self.folder.join(name))
    }

    /// Returns the URL with the paths of the authority and of the client's certificate and key.
    pub fn in_url(&self, url: &str) -> String {
        let path = |name: &str| self.folder.join(name).display().to_string().replace('/', "%2F");
        let (ca, cert, key) = (path("ca.crt"), path("client.crt"), path("client.key"));
        format!("{url}?ca={ca}&cert={cert}&key={key}")
    }

    /// Lets a server speak TLS from now on, and demand a certificate of each client except `postgres`. Called again, it
    /// lets the server read the authorities of clients again.
    ///
    /// # Panics
    /// If the server does not take the new rules.
    pub fn demanded_by(&self, server: &PostgresServer) {
        let rules = "host all postgres 127.0.0.1/32 trust\n\
                     hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n";
        let folder = server.folder();
        fs::write(folder.join("pg_hba.conf"), rules).expect("the rules are written");
        let owner = fs::metadata(&folder).expect("the folder is there");
        let files = [
            ("ssl_cert_file", "server.crt"),
            ("ssl_key_file", "server.key"),
            ("ssl_ca_file", "trusted.crt"),
        ];
        for (setting, file) in files {
            let copy = folder.join(setting);
            fs::copy(self.folder.join(file), &copy).expect("the folder can be written");
            fs::set_permissions(&copy, Permissions::from_mode(0o600)).expect("it is ours");
            chown(&copy, Some(owner.uid()), Some(owner.gid())).expect("root may give away");
            server.psql(&format!("ALTER SYSTEM SET {setting} = '{setting}'"));
        }
        server.psql("ALTER SYSTEM SET ssl = on");
        server.psql("SELECT pg_reload_conf()");
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.folder.join(from), self.folder.join(to)).expect("the folder can be written");
    }

    /// A PEM file with the server's key and certificate, as Java reads them.
    pub(crate) fn key_store(&self) -> PathBuf {
        let file = |name| fs::read_to_string(self.folder.join(name)).expect("just made");
        let path = self.folder.join("server.pem");
        fs::write(&path, file("server.key") + &file("server.crt"))
            .expect("the folder can be written");
        path
    }

    /// Returns the settings of a Redis server that speaks TLS at `port`, also with other servers, and that demands a
    /// certificate of each client.
    pub(crate) fn settings(&self, port: u16) -> Vec<(&'static str, String)> {
        let file = |name| self.folder.join(name).display().to_string();
        vec![
            ("tls-port", port.to_string()),
            ("tls-replication", "yes".to_owned()),
            ("tls-cert-file", file("server.crt")),
            ("tls-key-file", file("server.key")),
            ("tls-ca-cert-file", file("trusted.crt")),
        ]
    }
}

/// Converts settings to arguments of a server.
pub(crate) fn arguments(settings: &[(&str, String)]) -> Vec<String> {
    settings.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
}

/// Makes the authorities `ca` and `other`, and the certificate `server`, in `folder`.
pub(crate) fn make_certificates(folder: &Path) {
    require("openssl", "openssl", "openssl");
    fs::write(folder.join("openssl.cnf"), CONFIG).expect("the folder can be written");
    for name in ["ca", "other"] {
        let authority = format!(
            "req -x509 -newkey rsa:2048 -nodes -subj /CN=Leasehold-tests-{name} -extensions authority \
             -keyout {name}.key -out {name}.crt -config openssl.cnf -days {DAYS}"
        );
        openssl(folder, &authority);
    }
    sign(folder, "server", "ca", DAYS);
    Certificates::at(folder).copy("ca.crt", "trusted.crt");
}

/// Makes `name.key`, and `name.crt` that an authority signs.
fn sign(folder: &Path, name: &str, authority: &str, days: &str) {
    let request = format!(
        "req -new -newkey rsa:2048 -nodes -subj /CN=localhost -keyout {name}.key -out {name}.csr -config openssl.cnf"
    );
    let certificate = format!(
        "x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -set_serial 2 -extfile openssl.cnf \
         -extensions server -out {name}.crt -days {days}"
    );
    openssl(folder, &request);
    openssl(folder, &certificate);
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
