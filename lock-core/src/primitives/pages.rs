//! Listings page by page.

use std::future::ready;

use futures_util::stream::{self, Stream, TryStreamExt};

use crate::admin::Admin;
use crate::backend::Pages;
use crate::model::{LockError, LockState};

impl Admin {
    /// Lists the same as [`list`](Self::list), page by page as the store tells them: for more locks than fit into memory,
    /// or than a store can tell within one request time-out. Redis looks at 500 names for a page, and a page may be
    /// empty; other stores have one page.
    ///
    /// Nothing is sent before the first page is asked for. A page takes five request time-outs at most.
    ///
    /// # Errors
    /// As [`list`](Self::list): the last item of the stream. [`LockError::Incomplete`] has no locks then, as the pages
    /// before it have them; other stores than Redis give theirs with the error.
    ///
    /// # Cancel safety
    /// Dropping the stream has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use std::pin::pin;
    /// # use lock_core::{LockClient, LockRequest, MemoryBackend};
    /// use futures_util::TryStreamExt;
    ///
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let _guard = locks.acquire("job/nightly").await?;
    /// let admin = locks.admin();
    /// let mut pages = pin!(admin.pages("job/", usize::MAX));
    /// while let Some(held) = pages.try_next().await? {
    ///     held.iter().for_each(|lock| println!("{} is held", lock.name));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn pages(
        &self,
        prefix: impl Into<String>,
        limit: usize,
    ) -> impl Stream<Item = Result<Vec<LockState>, LockError>> + Send {
        let store = self.client().store();
        let longest = 5 * store.options.request_timeout;
        let pages: Pages<'_> = match store.admin() {
            Ok(admin) => admin.pages(prefix.into(), limit),
            Err(error) => Box::pin(stream::once(ready(Err(error)))),
        };
        stream::unfold(Some(pages), move |pages| async move {
            let mut pages = pages?;
            match store.request_once_within(longest, pages.try_next()).await {
                Ok(page) => page.map(|page| (Ok(page), Some(pages))),
                Err(source) => Some((Err(LockError::backend("list locks", None, source)), None)),
            }
        })
    }
}
