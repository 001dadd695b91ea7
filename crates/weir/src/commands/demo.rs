//! `weir demo`: sample replicas, a gateway in front of them and a little traffic, all on this machine.

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {}

pub(crate) fn run(_args: &DemoArgs) -> anyhow::Result<()> {
    Ok(())
}
