//! Records of runs.
//!
//! ```text
//!   held ── record ──▶ a node whose name says until when ── the next look deletes it ──▶ forgotten
//! ```

use std::collections::HashMap;

use futures_util::future::{join_all, try_join_all};
use lock_core::backend::{Record, Recording};
use lock_core::{BackendError, LockName, Occurrence, RecordedRun};
use zookeeper_client::{CreateMode, Error, MultiWriteError};

use crate::names::Run;
use crate::session::Session;
use crate::store::Store;

/// Number of records that one look deletes, so that no look takes long.
const DELETED_AT_ONCE: usize = 100;

/// The records of a lock.
#[derive(Default)]
struct Recorded {
    /// The server's time in milliseconds.
    now: i64,
    runs: Vec<Run>,
}

impl Store {
    /// Records a successful run, if its hold is still valid (C42).
    pub(crate) async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let Record { name, owner, token, occurrence, .. } = record;
        if self.claims.is_over(*owner) {
            return Ok(Recording::Lost);
        }
        let (session, folder) = (self.sessions.common().await?, self.root.runs(name));
        let mut known = self.claims.held_node(*owner);
        loop {
            let node = match known.take() {
                Some(node) => Some(node),
                None => self.node_of(&session, name, *owner).await?.map(|(node, _)| node),
            };
            let Some(node) = node.filter(|node| node.token == Some(*token)) else {
                return Ok(Recording::Lost);
            };
            let Some(Recorded { now, runs }) = self.look_at_runs(&session, &folder).await? else {
                self.make_folder(&session, &folder).await?;
                known = Some(node);
                continue;
            };
            let lasts = record.remember_millis().try_into().unwrap_or(i64::MAX);
            let (occurrence, token) = (occurrence.clone(), *token);
            let run = Run { occurrence, token, until: now.saturating_add(lasts) };
            match self.write_run(&session, &node.path, &folder, &run).await {
                Ok(())
                | Err(MultiWriteError::OperationFailed { source: Error::NodeExists, .. }) => {
                    let replaced =
                        |other: &&Run| other.occurrence == run.occurrence && **other != run;
                    self.delete_runs(&session, &folder, runs.iter().filter(replaced)).await;
                    return Ok(Recording::Recorded);
                }
                // The hold has moved or is over, or the server has removed the empty folder.
                Err(MultiWriteError::OperationFailed { source: Error::NoNode, .. }) => {}
                Err(error) => return Err(session.failed(error)),
            }
        }
    }

    /// Records a run in one transaction with a check of the hold's node.
    async fn write_run(
        &self,
        session: &Session,
        hold: &str,
        folder: &str,
        run: &Run,
    ) -> Result<(), MultiWriteError> {
        let (client, path) = (session.client(), format!("{folder}/{}", run.child()));
        let mut write = client.new_multi_writer();
        write.add_check_version(hold, -1)?;
        write.add_create(&path, &[], &CreateMode::Persistent.with_acls(self.acls))?;
        write.commit().await.map(drop)
    }

    pub(crate) async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let mut last = HashMap::new();
        for Run { occurrence, token, .. } in self.runs_of(name).await? {
            let known = last.entry(occurrence).or_insert(token);
            *known = token.max(*known);
        }
        last.retain(|occurrence, _| of.is_none_or(|of| of == occurrence));
        Ok(last.into_iter().map(|(of, token)| RecordedRun::new(of, token)).collect())
    }

    pub(crate) async fn forget(
        &self,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<bool, BackendError> {
        let (runs, session) = (self.runs_of(name).await?, self.sessions.common().await?);
        let folder = self.root.runs(name);
        let forgotten = runs
            .iter()
            .filter(|run| run.occurrence == *occurrence)
            .map(async |run| self.delete(&session, &format!("{folder}/{}", run.child())).await);
        Ok(try_join_all(forgotten).await?.contains(&true))
    }

    /// Returns the records of a lock.
    async fn runs_of(&self, name: &LockName) -> Result<Vec<Run>, BackendError> {
        let session = self.sessions.common().await?;
        let seen = self.look_at_runs(&session, &self.root.runs(name)).await?;
        Ok(seen.unwrap_or_default().runs)
    }

    /// Reads the records of a lock, and deletes those that have ended; `None` if their folder is missing.
    ///
    /// Writes the folder's data, since only the answer to a write has the server's time. The write also keeps the read
    /// from being behind. A record that is not understood is not ours, and is skipped.
    async fn look_at_runs(
        &self,
        session: &Session,
        folder: &str,
    ) -> Result<Option<Recorded>, BackendError> {
        let client = session.client();
        // Both requests are sent before the first answer.
        let (write, read) = (client.set_data(folder, &[], None), client.list_children(folder));
        let (stat, children) = match tokio::join!(write, read) {
            (Err(Error::NoNode), _) | (_, Err(Error::NoNode)) => return Ok(None),
            (Err(error), _) | (_, Err(error)) => return Err(session.failed(error)),
            (Ok(stat), Ok(children)) => (stat, children),
        };
        let now = stat.mtime;
        let runs = children.iter().filter_map(|child| Run::read(child));
        let (runs, ended): (Vec<_>, Vec<_>) = runs.partition(|run| run.until > now);
        self.delete_runs(session, folder, &ended).await;
        Ok(Some(Recorded { now, runs }))
    }

    /// Deletes records. The next look tries again to delete one that stays.
    async fn delete_runs<'a>(
        &self,
        session: &Session,
        folder: &str,
        runs: impl IntoIterator<Item = &'a Run>,
    ) {
        let client = session.client();
        let paths = runs.into_iter().map(|run| format!("{folder}/{}", run.child()));
        let delete = async |path: String| client.delete(&path, None).await;
        join_all(paths.take(DELETED_AT_ONCE).map(delete)).await;
    }

    /// Creates the folder of a lock's records, which the server removes some time after the last one.
    async fn make_folder(&self, session: &Session, folder: &str) -> Result<(), BackendError> {
        let options = CreateMode::Container.with_acls(self.acls);
        match session.client().create(folder, &[], &options).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(Error::NoNode) => self.make_folders(session).await,
            Err(error) => Err(session.failed(error)),
        }
    }
}
