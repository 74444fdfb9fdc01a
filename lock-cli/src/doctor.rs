//! `leasehold doctor`: dangers to locks on a server, and obstacles to one lock.

use leasehold::Capabilities;
use leasehold::admin::{Finding, Health};
use leasehold::core::Readable;
use serde::Serialize;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::terminal::{BAD, DOUBTFUL, GOOD, print, print_json, styled};
use crate::url::StoreUrl;

#[derive(Serialize)]
struct Report {
    /// The URL without user, password and parameters.
    store: String,
    capabilities: Capabilities,
    findings: Vec<Finding>,
}

pub(crate) async fn run(args: &args::Doctor, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let client = store.connect().await?;
    let mut findings = client.admin().doctor().await?;
    if let Some(name) = &args.name {
        // C49: obstacles to this one lock.
        findings.extend(client.admin().examine(name).await?);
    }
    let report = Report { store: store.shown(), capabilities: client.capabilities(), findings };
    if args.json {
        print_json(&report)?;
    } else {
        print(described(&store.described(), &report))?;
    }
    // C31: a risk is a warning, and an error with --strict.
    let endangered = report.findings.iter().any(|finding| finding.health == Health::Risk);
    Ok(if args.strict && endangered { Exit::No } else { Exit::Done })
}

fn described(store: &str, report: &Report) -> String {
    // C30: the same data as in the library and the docs.
    let mut lines = vec![store.to_owned(), report.capabilities.to_string(), String::new()];
    for finding in &report.findings {
        let (style, health) = match finding.health {
            Health::Good => (GOOD, "good"),
            Health::Risk => (BAD, "risk"),
            Health::Unknown => (DOUBTFUL, "unknown"),
        };
        let health = styled(style, format!("{health:7}"));
        lines.push(format!("{health}  {:14} {}", finding.check, Readable::again(&finding.seen)));
        let remedy = finding.remedy.as_deref().map(Readable::again);
        lines.extend(remedy.map(|remedy| format!("{:25}→ {remedy}", "")));
    }
    lines.join("\n")
}
