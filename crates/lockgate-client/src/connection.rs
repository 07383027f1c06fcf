//! A connection that speaks HTTP, its requests and responses.

use std::cell::RefCell;
use std::future::ready;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{HOST, HeaderMap};
use http::request::Builder;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use lockgate_http::h1::HeadLimits;

use crate::error::ClientError;
use crate::head_judge::HeadJudge;
use crate::http2::Http2Connection;
use crate::limits::ExchangeLimits;
use crate::stream::ServerStream;
use crate::tasks::Tasks;

/// A connection that speaks HTTP/1.1 or HTTP/2, for one exchange after the other. Dropping it
/// closes it at once.
pub struct HttpConnection(AnyConnection);

enum AnyConnection {
    Http1(Http1Connection),
    Http2(Box<Http2Connection>),
}

/// A connection that speaks HTTP/1.1.
struct Http1Connection {
    judge: Rc<RefCell<HeadJudge>>,
    sender: http1::SendRequest<Full<Bytes>>,
    tasks: Tasks,
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
    body: ResponseBody<'a>,
}

/// The body of a response, as its connection has it.
enum ResponseBody<'a> {
    Http1(Incoming, &'a Tasks),
    Http2(&'a mut Http2Connection),
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
        Ok(Self(AnyConnection::Http1(Http1Connection {
            judge,
            sender,
            tasks,
        })))
    }

    /// Speaks HTTP/2, from the first exchange on.
    pub fn http2(stream: ServerStream) -> Self {
        Self(AnyConnection::Http2(Box::new(Http2Connection::new(stream))))
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
        let head = Builder::new().method(request.method);
        let path = request.encode_path();
        match &mut self.0 {
            AnyConnection::Http1(connection) => {
                let Http1Connection {
                    judge,
                    sender,
                    tasks,
                } = connection;
                judge
                    .borrow_mut()
                    .expect(request.method, tasks.limits.head_bytes);
                let request = request.encode(head.uri(path).header(HOST, request.host))?;
                let sent = async {
                    sender.ready().await?;
                    sender.send_request(request).await
                };
                let (head, body) = tasks.drive(sent).await?.into_parts();
                Ok(ClientResponse {
                    status: head.status.as_u16(),
                    fields: head.headers,
                    trailers: HeaderMap::new(),
                    body: ResponseBody::Http1(body, tasks),
                })
            }
            AnyConnection::Http2(connection) => {
                let uri = format!("{}://{}{path}", connection.scheme(), request.host);
                let (head, _) = request.encode(head.uri(uri))?.into_parts();
                let (status, fields) = connection.exchange(&head, request.body.clone()).await?;
                Ok(ClientResponse {
                    status,
                    fields,
                    trailers: HeaderMap::new(),
                    body: ResponseBody::Http2(connection),
                })
            }
        }
    }

    /// Closes the connection, and says so where TLS or HTTP/2 has a word for it, as far as that
    /// goes without waiting. Drop its responses before.
    pub async fn close(self) {
        let Http1Connection { sender, tasks, .. } = match self.0 {
            AnyConnection::Http1(connection) => connection,
            AnyConnection::Http2(connection) => return connection.close().await,
        };
        drop(sender);
        // The task of a connection comes before the one that tells it of the end.
        for _ in 0..2 {
            let _ = tasks.drive(ready(Ok(()))).await;
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
        let (mut body, most) = (Vec::new(), self.body.limits().body_bytes);
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
        let (body, tasks) = match &mut self.body {
            ResponseBody::Http1(body, tasks) => (body, *tasks),
            ResponseBody::Http2(connection) => {
                let next = connection.next().await?;
                if next.is_none() {
                    self.trailers = connection.take_trailers();
                }
                return Ok(next);
            }
        };
        loop {
            let next = async { body.frame().await.transpose() };
            let Some(frame) = tasks.drive(next).await? else {
                return Ok(None);
            };
            match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(frame) => self.trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
    }
}

impl ResponseBody<'_> {
    fn limits(&self) -> &ExchangeLimits {
        match self {
            Self::Http1(_, tasks) => &tasks.limits,
            Self::Http2(connection) => connection.limits(),
        }
    }
}
