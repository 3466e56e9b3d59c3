// The story of azure_messaging_servicebus 0.21, which speaks HTTPS: a message with
// properties, locks that are renewed and unlocked, deletion, the dead-letter queue,
// receiving with deletion, a scheduled message, a message of a session, and a
// subscription.
use std::{collections::HashMap, env, error::Error, process::Command, sync::Arc, time::Duration};

use azure_core::{HttpClient, Request, Response, StatusCode};
use azure_messaging_servicebus::{
    prelude::*,
    service_bus::{SendMessageOptions, SettableBrokerProperties},
};
use time::OffsetDateTime;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const WAIT: Option<Duration> = Some(Duration::from_secs(30));
const POLICY: &str = "RootManageSharedAccessKey";
const MAX_DELIVERIES: i32 = 3;

/// Sends requests to the gateway: the crate makes NAMESPACE.servicebus.windows.net
/// of a namespace, and has no way to name a host or a port.
#[derive(Debug)]
struct ToGateway {
    client: Arc<dyn HttpClient>,
    port: u16,
}

#[async_trait::async_trait]
impl HttpClient for ToGateway {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<Response> {
        let mut request = request.clone();
        let url = request.url_mut();
        url.set_host(Some("localhost"))?;
        url.set_port(Some(self.port)).expect("a host takes a port");
        self.client.execute_request(&request).await
    }
}

#[tokio::main]
async fn main() -> Outcome {
    let name = env::var("STORY_NAME")? + "-azure-rs";
    tokio::time::timeout(Duration::from_secs(120), tell(&name)).await?
}

async fn tell(name: &str) -> Outcome {
    let http: Arc<dyn HttpClient> = Arc::new(ToGateway {
        client: azure_core::new_http_client(),
        port: env::var("STORY_PORT")?.parse()?,
    });
    let key = env::var("STORY_CONNECTION")?
        .split(';')
        .find_map(|part| part.strip_prefix("SharedAccessKey=").map(String::from))
        .ok_or("no key")?;
    let queue_client =
        |queue: &str| QueueClient::new(http.clone(), "any", queue, POLICY, key.clone());
    queue(name, &queue_client).await?;
    session(&format!("{name}-s"), &queue_client).await?;

    let topic = format!("{name}-t");
    crosstown(&["topic", "create", &topic])?;
    crosstown(&["subscription", "create", &topic, "all"])?;
    let client = TopicClient::new(http.clone(), "any", topic.clone(), POLICY, key.clone())?;
    client.topic_sender().send_message("news", None).await?;
    client.topic_sender().send_message("more", None).await?;
    let receiver = client.subscription_receiver("all");
    let got = receiver.peek_lock_message2(WAIT).await?;
    same(
        got.body(),
        "news".into(),
        "the first message of the subscription",
    )?;
    got.delete_message().await?;
    let got = receiver.receive_and_delete_message().await?;
    same(got, "more".into(), "the second message of the subscription")?;
    same(
        crosstown(&["peek", &(topic + "/Subscriptions/all")])?,
        String::new(),
        "left in the subscription",
    )
}

async fn queue(name: &str, client: &impl Fn(&str) -> azure_core::Result<QueueClient>) -> Outcome {
    let most = MAX_DELIVERIES.to_string();
    crosstown(&["queue", "create", name, "--max-delivery-count", &most])?;
    let queue = client(name)?;

    let options = SendMessageOptions {
        content_type: Some("text/plain".into()),
        broker_properties: Some(SettableBrokerProperties {
            message_id: Some("id-1".into()),
            label: Some("label".into()),
            time_to_live: Some(Duration::from_secs(3600)),
            ..Default::default()
        }),
        custom_properties: Some(HashMap::from([("own".into(), "\"yes\"".into())])),
    };
    queue.send_message("one", Some(options)).await?;
    let got = queue.peek_lock_message2(WAIT).await?;
    same(got.body(), "one".into(), "the body")?;
    same(*got.status(), StatusCode::Created, "the status")?;
    let properties = got.broker_properties().ok_or("no broker properties")?;
    same(properties.message_id, "id-1".into(), "the message's id")?;
    same(properties.delivery_count, 1, "the delivery count")?;
    same(properties.sequence_number, 1, "the sequence number")?;
    same(properties.state, "Active".into(), "the state")?;
    same(properties.time_to_live, 3600.0, "the time to live")?;
    let Own(own) = got.custom_properties()?;
    same(own, "\"yes\"".into(), "the own property")?;
    same(
        properties.locked_until_utc > OffsetDateTime::now_utc(),
        true,
        "locked until later",
    )?;
    got.renew_message_lock().await?;
    got.unlock_message().await?;
    let again = queue.peek_lock_message2(WAIT).await?;
    let count = again
        .broker_properties()
        .ok_or("no broker properties")?
        .delivery_count;
    same(count, 2, "the delivery count after the unlock")?;
    again.delete_message().await?;
    let lost = again.renew_message_lock().await;
    same(lost.is_err(), true, "renewing a lock that ended is refused")?;

    queue.send_message("bad", None).await?;
    for delivery in 1..=MAX_DELIVERIES {
        let got = queue.peek_lock_message2(WAIT).await?;
        let count = got
            .broker_properties()
            .ok_or("no broker properties")?
            .delivery_count;
        same(count, delivery, "the delivery count")?;
        got.unlock_message().await?;
    }
    let dead = client(&format!("{name}/$DeadLetterQueue"))?;
    let got = dead.peek_lock_message2(WAIT).await?;
    same(got.body(), "bad".into(), "the dead letter")?;
    got.delete_message().await?;

    queue.send_message("deleted", None).await?;
    let got = queue.receive_and_delete_message().await?;
    same(got, "deleted".into(), "received with deletion")?;
    let none = queue
        .peek_lock_message2(Some(Duration::from_secs(1)))
        .await?;
    same(
        *none.status(),
        StatusCode::NoContent,
        "the status of no message",
    )?;

    let later = SettableBrokerProperties {
        scheduled_enqueue_time_utc: Some(OffsetDateTime::now_utc() + Duration::from_secs(2)),
        ..Default::default()
    };
    let options = SendMessageOptions {
        broker_properties: Some(later),
        ..Default::default()
    };
    queue.send_message("later", Some(options)).await?;
    let got = queue.peek_lock_message2(WAIT).await?;
    same(got.body(), "later".into(), "the scheduled message")?;
    got.delete_message().await?;
    same(
        crosstown(&["peek", name])?,
        String::new(),
        "left in the queue",
    )
}

/// The crate can send to a session, but it cannot receive from one.
async fn session(name: &str, client: &impl Fn(&str) -> azure_core::Result<QueueClient>) -> Outcome {
    crosstown(&["queue", "create", name, "--requires-session"])?;
    let broker_properties = SettableBrokerProperties {
        session_id: Some("blue".into()),
        ..Default::default()
    };
    let options = SendMessageOptions {
        broker_properties: Some(broker_properties),
        ..Default::default()
    };
    client(name)?.send_message("in blue", Some(options)).await?;
    let peeked = crosstown(&["peek", name, "--session", "blue"])?;
    same(
        peeked.trim_end().ends_with("in blue"),
        true,
        "sent to the session",
    )
}

/// Own is the value of the header own.
struct Own(String);

impl TryFrom<azure_core::headers::Headers> for Own {
    type Error = azure_core::Error;

    fn try_from(headers: azure_core::headers::Headers) -> azure_core::Result<Self> {
        headers.get_str(&"own".into()).map(|own| Own(own.into()))
    }
}

fn same<T: PartialEq + std::fmt::Debug>(got: T, want: T, what: &str) -> Outcome {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, want {want:?}").into())
    }
}

/// The command's exit code where there is no message.
const NOTHING: i32 = 4;

/// Runs the gateway's command and returns what it prints.
fn crosstown(args: &[&str]) -> Outcome<String> {
    let out = Command::new(env::var("CROSSTOWN")?).args(args).output()?;
    if !out.status.success() && out.status.code() != Some(NOTHING) {
        return Err(format!(
            "crosstown {args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        )
        .into());
    }
    Ok(String::from_utf8(out.stdout)?)
}
