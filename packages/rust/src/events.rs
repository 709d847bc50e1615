use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use serde_json::{json, Map, Value};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::{io, Chain, Error, Result};

/// Messages that are read ahead. When the reader is slower, the node buffers, and closes the
/// subscription with `SLOW_READER` in the end.
const AHEAD: usize = 256;

/// From when on a block counts.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Finality {
    /// When it is made.
    Optimistic,
    /// When the next block is made.
    NearFinal,
    /// When the two next blocks are made.
    Final,
}

/// What to subscribe to.
#[derive(Clone, Debug)]
pub struct Topic(Map<String, Value>);

impl Topic {
    fn new(topic: &str) -> Self {
        Self(Map::new()).with("topic", topic)
    }
    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }
    /// Each block, as the method `block` returns it, in the field `block`.
    pub fn blocks() -> Self {
        Self::new("blocks")
    }
    /// Each status that a transaction reaches which the account signs or receives, in the field
    /// `transaction`.
    pub fn transactions(account_id: &str) -> Self {
        Self::new("transactions").with("account_id", account_id)
    }
    /// Each status that these transactions reach. The subscription ends when all are final.
    pub fn transaction_hashes(hashes: &[&str]) -> Self {
        Self::new("transactions").with("tx_hashes", hashes)
    }
    /// Each outcome that the account executes, in the field `outcome`.
    pub fn outcomes(account_id: &str) -> Self {
        Self::new("outcomes").with("account_id", account_id)
    }
    /// Each NEP-297 event that the contract logs, in the field `event`.
    pub fn events(account_id: &str) -> Self {
        Self::new("events").with("account_id", account_id)
    }
    /// Each block with all its effects, as nearcore's indexer framework has it.
    pub fn messages() -> Self {
        Self::new("messages")
    }
    /// Only events of a standard, such as `nep141`.
    pub fn standard(self, standard: &str) -> Self {
        self.with("standard", standard)
    }
    /// Only events of a name, such as `ft_transfer`.
    pub fn event(self, event: &str) -> Self {
        self.with("event", event)
    }
    /// Sets from when on a block counts. Default: final. Transactions have none.
    pub fn finality(self, finality: Finality) -> Self {
        self.with("finality", json!(finality))
    }
    /// Continues after the message with this cursor.
    pub fn after(self, cursor: Value) -> Self {
        self.with("after", cursor)
    }
    /// Begins at a stored height.
    pub fn from_height(self, height: u64) -> Self {
        self.with("from_height", height)
    }
}

/// A message of a subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// The position in the chain, for [`Topic::after`].
    pub cursor: Value,
    /// The field that the topic names, or `reverted`: a reorganisation has dropped this block, and
    /// all that was sent about it is void.
    pub body: Value,
}

/// A subscription. It ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    cursor: Value,
    messages: mpsc::Receiver<Result<Message>>,
    _reader: io::Task<()>,
}

impl Subscription {
    /// Returns the position in the chain where it began.
    pub fn cursor(&self) -> &Value {
        &self.cursor
    }

    /// Waits for the next message. `None`: the node has sent everything that was asked for.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriptionClosed`], once; then `None`.
    pub async fn next(&mut self) -> Result<Option<Message>> {
        self.messages.recv().await.transpose()
    }
}

impl Chain {
    /// Subscribes to blocks, transactions, outcomes, events or messages.
    ///
    /// # Errors
    ///
    /// [`Error::Rpc`] if the node refuses, [`Error::WorldEnded`], and
    /// [`Error::SubscriptionClosed`] if no node answers.
    pub async fn subscribe(&self, topic: Topic) -> Result<Subscription> {
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": topic.0 });
        let url = self.ws_url();
        let closed = |reason: String| Error::SubscriptionClosed { url: self.ws_url(), reason };
        let (sender, mut messages) = mpsc::channel(AHEAD);
        let reader = io::run(read(url.clone(), request.to_string(), sender));
        let first = match messages.recv().await {
            Some(Ok(m)) => m.body,
            Some(Err(e)) => return Err(e),
            None => return Err(closed("it ended before the reply".into())),
        };
        if let Some(error) = first.get("error") {
            return Err(self.refused("subscribe", error));
        }
        let cursor = first["result"]["cursor"].clone();
        Ok(Subscription { cursor, messages, _reader: reader })
    }
}

/// Sends the request, and passes on the reply and the messages until the end. The reply is the
/// first message's body.
async fn read(url: String, request: String, to: mpsc::Sender<Result<Message>>) {
    let closed = |reason: String| Error::SubscriptionClosed { url: url.clone(), reason };
    let connection = tokio_tungstenite::connect_async(&url).await;
    let mut socket = match connection {
        Ok((socket, _)) => socket,
        Err(e) => {
            // the subscriber may have gone, here and below
            let _ = to.send(Err(closed(e.to_string()))).await;
            return;
        }
    };
    let sent = socket.send(Frame::text(request)).await;
    let mut end = sent.err().map(|e| closed(e.to_string()));
    while end.is_none() {
        let text = match socket.next().await {
            Some(Ok(Frame::Text(text))) => text,
            Some(Ok(Frame::Close(_))) | None => {
                end = Some(closed("the connection was closed".into()));
                break;
            }
            Some(Ok(_)) => continue,
            Some(Err(e)) => {
                end = Some(closed(e.to_string()));
                break;
            }
        };
        let mut body: Value = match serde_json::from_str(&text) {
            Ok(body) => body,
            Err(e) => {
                end = Some(Error::BadReply(format!("{url} sent what is not JSON: {e}")));
                break;
            }
        };
        let message = match body.get_mut("params").map(Value::take) {
            None => Message { cursor: Value::Null, body },
            Some(mut params) => {
                if let Some(why) = params.get("closed") {
                    let reason = why.as_str().or(why["reason"].as_str()).unwrap_or("unknown");
                    end = (reason != "DONE").then(|| closed(reason.into()));
                    break;
                }
                let cursor = params["cursor"].take();
                if let Some(fields) = params.as_object_mut() {
                    fields.retain(|name, _| name != "cursor" && name != "subscription");
                }
                Message { cursor, body: params }
            }
        };
        if to.send(Ok(message)).await.is_err() {
            break;
        }
    }
    if let Some(e) = end {
        let _ = to.send(Err(e)).await;
    }
}
