//! A connection that speaks HTTP, its requests and responses.

use std::cell::RefCell;
use std::future::ready;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{HOST, HeaderMap};
use http::request::Builder;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use lockgate_http::h1::HeadLimits;

use crate::error::ClientError;
use crate::head_judge::HeadJudge;
use crate::stream::ServerStream;
use crate::tasks::Tasks;

/// Bytes of bodies over HTTP/2 that a server may send unread: the windows that HTTP/2 begins with.
const WINDOW: u32 = 65_535;

/// A connection that speaks HTTP/1.1 or HTTP/2, for one exchange after the other. Dropping it
/// closes it at once.
pub struct HttpConnection {
    sender: Sender,
    tasks: Tasks,
}

enum Sender {
    Http1(Rc<RefCell<HeadJudge>>, http1::SendRequest<Full<Bytes>>),
    /// With the scheme of its requests.
    Http2(&'static str, http2::SendRequest<Full<Bytes>>),
}

/// A request.
#[derive(Debug)]
pub struct ClientRequest<'a> {
    /// A token.
    pub method: &'a str,
    /// The host, with its port where that is not the scheme's own.
    pub host: &'a str,
    /// The path and query.
    pub path: &'a str,
    /// Further fields; HTTP/2 leaves out those of the connection.
    pub fields: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Bytes,
}

/// A response of which the head has come.
pub struct ClientResponse<'a> {
    /// The status; never that of an interim response.
    pub status: u16,
    /// The fields of the head.
    pub fields: HeaderMap,
    /// The trailers, once the body was read to its end.
    pub trailers: HeaderMap,
    body: Incoming,
    tasks: &'a Tasks,
}

impl HttpConnection {
    /// Speaks HTTP/1.1.
    ///
    /// # Errors
    /// When the connection has broken.
    pub async fn http1(mut stream: ServerStream) -> Result<Self, ClientError> {
        let (tasks, judge) = (Tasks::new(stream.limits), Rc::clone(&stream.judge));
        // hyper refuses what comes before a request, but some servers respond unasked.
        stream.writes_first = true;
        let head = HeadLimits::default();
        let (sender, connection) = http1::Builder::new()
            .title_case_headers(true)
            .max_headers(head.fields)
            // Too long a head is refused by the judge: this bounds what is read at once.
            .max_buf_size(2 * head.head)
            .handshake(TokioIo::new(stream))
            .await?;
        tasks.spawner().execute(connection);
        let sender = Sender::Http1(judge, sender);
        Ok(Self { sender, tasks })
    }

    /// Speaks HTTP/2.
    ///
    /// # Errors
    /// When the connection has broken.
    pub async fn http2(stream: ServerStream) -> Result<Self, ClientError> {
        let tasks = Tasks::new(stream.limits);
        let scheme = if stream.stream.is_secure() {
            "https"
        } else {
            "http"
        };
        let (sender, connection) = http2::Builder::new(tasks.spawner())
            .max_header_list_size(u32::try_from(HeadLimits::default().head).unwrap_or(u32::MAX))
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        tasks.spawner().execute(connection);
        let sender = Sender::Http2(scheme, sender);
        Ok(Self { sender, tasks })
    }

    /// Sends a request, and waits for the head of the response; the body of the request is sent
    /// meanwhile, and while the response is read.
    ///
    /// # Errors
    /// When there is no response.
    pub async fn exchange(
        &mut self,
        request: &ClientRequest<'_>,
    ) -> Result<ClientResponse<'_>, ClientError> {
        let (tasks, head) = (&self.tasks, Builder::new().method(request.method));
        let path = request.encode_path();
        let response = match &mut self.sender {
            Sender::Http1(judge, sender) => {
                let left = tasks.limits.head_bytes;
                judge.borrow_mut().expect(request.method, left);
                let request = request.encode(head.uri(path).header(HOST, request.host))?;
                let sent = async {
                    sender.ready().await?;
                    sender.send_request(request).await
                };
                tasks.drive(sent).await?
            }
            Sender::Http2(scheme, sender) => {
                let uri = format!("{scheme}://{}{path}", request.host);
                let request = request.encode(head.uri(uri))?;
                tasks.drive(sender.send_request(request)).await?
            }
        };
        let (head, body) = response.into_parts();
        Ok(ClientResponse {
            status: head.status.as_u16(),
            fields: head.headers,
            trailers: HeaderMap::new(),
            body,
            tasks,
        })
    }

    /// Closes the connection, and says so where TLS or HTTP/2 has a word for it, as far as that
    /// goes without waiting. Drop its responses before.
    pub async fn close(self) {
        drop(self.sender);
        // The task of a connection comes before the one that tells it of the end.
        for _ in 0..2 {
            let _ = self.tasks.drive(ready(Ok(()))).await;
        }
    }
}

impl ClientRequest<'_> {
    fn encode(&self, mut head: Builder) -> Result<http::Request<Full<Bytes>>, ClientError> {
        for (name, value) in self.fields {
            head = head.header(*name, *value);
        }
        head.body(Full::new(self.body.clone()))
            .map_err(|_| ClientError::InvalidRequest)
    }

    /// The path, with what no URI has encoded (RFC 3986 §2).
    fn encode_path(&self) -> String {
        let path = self.path.replace('"', "%22").replace('<', "%3C");
        path.replace('>', "%3E").replace('`', "%60")
    }
}

impl ClientResponse<'_> {
    /// Reads the body: to its end, to its limit, or until `enough`, which gets the body so far and
    /// the index of the new part of it.
    ///
    /// # Errors
    /// When it does not come to its end.
    pub async fn read(
        &mut self,
        enough: impl Fn(&[u8], usize) -> bool,
    ) -> Result<Vec<u8>, ClientError> {
        let (mut body, most) = (Vec::new(), self.tasks.limits.body_bytes);
        while let Some(data) = self.next().await? {
            let new = body.len();
            body.extend_from_slice(&data);
            body.truncate(most);
            if body.len() == most || enough(&body, new) {
                break;
            }
        }
        Ok(body)
    }

    /// The next piece of the body, without a limit of its length; none at its end.
    ///
    /// # Errors
    /// When it does not come.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let next = async { self.body.frame().await.transpose() };
            let Some(frame) = self.tasks.drive(next).await? else {
                return Ok(None);
            };
            match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(frame) => self.trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
    }
}
