//! The store that is asked, whichever way.

use bytes::Bytes;
use tokio::runtime::Runtime;
use weir_kv::Client;
use weir_kv::api::line::Line;
use weir_kv::client::{DeleteOptions, Entry, PutOptions, Written};
use weir_kv::frame::Span;

use super::over_http::Http;
use super::place::{Place, Way};

/// Takes the lines of a range.
pub(super) type Take<'t> = &'t mut dyn FnMut(Line) -> std::io::Result<()>;

pub(super) enum Store {
    Nodes(Runtime, Client),
    Gateway(Http),
}

impl Store {
    pub(super) fn open(place: &Place) -> anyhow::Result<Self> {
        match place.way()? {
            Way::Url(url) => Http::to(&url).map(Self::Gateway),
            Way::Nodes(settings) => {
                // Whoever reads what this command writes may be slow. Another thread tells the nodes meanwhile that it is there.
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build()?;
                let client = runtime.block_on(Client::connect(settings))?;
                Ok(Self::Nodes(runtime, client))
            }
        }
    }

    pub(super) fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<Entry>> {
        match self {
            Self::Gateway(http) => http.get(key),
            Self::Nodes(runtime, client) => {
                let got = client.get(Bytes::copy_from_slice(key), None);
                Ok(runtime.block_on(got)?)
            }
        }
    }

    pub(super) fn put(
        &mut self,
        key: &[u8],
        value: Vec<u8>,
        options: PutOptions,
    ) -> anyhow::Result<Written> {
        match self {
            Self::Gateway(http) => http.put(key, &value, &options),
            Self::Nodes(runtime, client) => {
                let put = client.put(Bytes::copy_from_slice(key), value, options);
                Ok(runtime.block_on(put)?)
            }
        }
    }

    pub(super) fn delete(&mut self, key: &[u8], options: DeleteOptions) -> anyhow::Result<Written> {
        match self {
            Self::Gateway(http) => http.delete(key, &options),
            Self::Nodes(runtime, client) => {
                let deleted = client.delete(Bytes::copy_from_slice(key), options);
                Ok(runtime.block_on(deleted)?)
            }
        }
    }

    /// Hands the first entries of a range to `take`, and the key behind them, if there are more.
    pub(super) fn scan(&mut self, span: Span, limit: u64, take: Take<'_>) -> anyhow::Result<()> {
        match self {
            Self::Gateway(http) => http.scan(&span, limit, take),
            Self::Nodes(runtime, client) => runtime.block_on(async {
                let mut entries = client.scan(span);
                let mut left = limit;
                while let Some((key, entry)) = entries.next().await? {
                    if left == 0 {
                        take(Line::Next(key))?;
                        break;
                    }
                    take(Line::Entry(key, entry.version, entry.value))?;
                    left -= 1;
                }
                Ok(())
            }),
        }
    }
}
