//! The least that a proxy can do: one request in, the same request out, the answer back as it comes.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// Serves until it is killed.
pub(crate) fn serve(upstream: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let upstream = upstream.to_owned();
    runtime.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("http://{}", listener.local_addr().unwrap());
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (client, upstream) = (client.clone(), upstream.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| pass(request, client.clone(), upstream.clone()));
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

async fn pass(
    mut request: Request<Incoming>,
    client: Client<HttpConnector, Incoming>,
    upstream: String,
) -> Result<Response<http_body_util::combinators::BoxBody<bytes::Bytes, hyper::Error>>, hyper_util::client::legacy::Error>
{
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = format!("{upstream}{path}").parse::<Uri>().unwrap();
    request.headers_mut().remove("host");
    Ok(client.request(request).await?.map(BodyExt::boxed))
}
