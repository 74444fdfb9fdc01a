//! The file of the URL, whose user and password may change.

use std::path::{Path, PathBuf};

use leasehold::core::backend::async_trait;
use leasehold::{BoxError, CredentialProvider, Credentials};
use tokio::task::spawn_blocking;

use crate::url::read;

/// The file of `--url-file`, which provides the user and the password of each connection.
#[derive(Clone)]
pub(crate) struct UrlFile(PathBuf);

impl UrlFile {
    /// Returns the file of a URL with a login. A pipe is read once.
    pub(crate) fn of(path: &Path, url: &str) -> Option<Self> {
        let logins = [Credentials::of_url(url), Credentials::at_sentinels_of_url(url)];
        let has_a_login = logins.iter().any(|login| *login != Credentials::default());
        (has_a_login && path.is_file()).then(|| Self(path.to_owned()))
    }

    async fn url(&self) -> Result<String, BoxError> {
        let path = self.0.clone();
        let text = spawn_blocking(move || read("--url-file", &path)).await?;
        let text = text.map_err(|failure| failure.message().to_owned())?;
        match text.trim() {
            // Writers that replace no file by a rename empty it first.
            "" => Err(format!("{} is empty", self.0.display()).into()),
            url => Ok(url.to_owned()),
        }
    }
}

#[async_trait]
impl CredentialProvider for UrlFile {
    async fn credentials(&self) -> Result<Credentials, BoxError> {
        Ok(Credentials::of_url(&self.url().await?))
    }

    async fn at_sentinels(&self) -> Result<Credentials, BoxError> {
        Ok(Credentials::at_sentinels_of_url(&self.url().await?))
    }
}
