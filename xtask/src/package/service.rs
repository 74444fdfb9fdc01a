//! A small service, built by `cargo xtask package` from the packages alone.

use std::error::Error;
use std::time::Duration;

use leasehold::file::FileFence;
use leasehold::{Fence, LockRequest, MemoryBackend, Wait};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let home = std::env::temp_dir().join(format!("package-service-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let served = serve(&home).await;
    std::fs::remove_dir_all(&home)?;
    served
}

async fn serve(home: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let locks = leasehold::connect(&format!("file:{}", home.join("locks").display())).await?;
    let request = LockRequest::new("stock:42").wait(Wait::AtMost(Duration::from_secs(2)));
    let guard = locks.acquire(request).await?;
    let fence = FileFence::open(home.join("stock.fence"))?;
    fence.advance(guard.token()).await?;
    assert!(locks.try_acquire("stock:42").await?.is_none(), "two holders");
    guard.release().await?;

    let faulty = leasehold::testing::Faulty::new(std::sync::Arc::new(MemoryBackend::new()));
    let locks = leasehold::LockClient::new(faulty);
    locks.acquire("stock:42").await?.release().await?;
    for url in [
        "redis://",
        "redis-cluster://",
        "redis-sentinel://",
        "redis-quorum://",
        "etcd://",
        "postgres://",
        "zookeeper://",
    ] {
        // Shows without a server that the backend is compiled in: the error would otherwise be about an unknown
        // scheme.
        let error = leasehold::connect(&format!("{url}127.0.0.1:1/?nonsense=1")).await.err();
        let said = error.ok_or("a parameter that nobody knows was taken")?.to_string();
        assert!(said.contains("nonsense"), "{url}: {said}");
    }
    println!("a service from the packages alone works");
    Ok(())
}
