//! Multipart uploads that nobody will finish: a writer was killed between the first part and the last. A store keeps their
//! parts, bills for them, and shows them in no listing of objects.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use object_store::aws::AmazonS3;
use object_store::multipart::MultipartStore as _;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer as _};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use serde::Deserialize;

/// How long a signed request counts.
const REQUEST_VALID: Duration = Duration::from_secs(60);
/// How long the store has for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The largest answer, in bytes: a thousand uploads of a kilobyte each, four times.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Answers that are read in one sweep; the next one goes on where uploads are left.
const ANSWERS_MAX: usize = 100;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A bucket, and the client for the one question that `object_store` does not ask.
#[derive(Debug, Clone)]
pub(crate) struct Uploads {
    bucket: Arc<AmazonS3>,
    client: reqwest::Client,
}

/// What a store answers to `ListMultipartUploads`; at most 1,000 of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    #[serde(rename = "Upload", default)]
    uploads: Vec<Upload>,
    /// Demanded: another document than a listing has none, and must not pass for one without uploads.
    is_truncated: bool,
    #[serde(default)]
    next_key_marker: String,
    #[serde(default)]
    next_upload_id_marker: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Upload {
    key: String,
    upload_id: String,
    initiated: DateTime<Utc>,
}

impl Uploads {
    pub(crate) fn of(bucket: Arc<AmazonS3>) -> Result<Self, Failure> {
        // A redirect would carry the signature to another place, which it does not fit.
        let client = reqwest::Client::builder().timeout(ANSWER_MAX).redirect(Policy::none()).build()?;
        Ok(Self { bucket, client })
    }

    /// Aborts those below `place` that began more than `age` ago; returns how many.
    pub(crate) async fn abort_older(&self, place: &Path, age: Duration) -> Result<u64, Failure> {
        let began_before = DateTime::<Utc>::from(SystemTime::now() - age);
        let (mut aborted, mut marker) = (0, (String::new(), String::new()));
        for _ in 0..ANSWERS_MAX {
            let listing = self.list(place, &marker).await?;
            for upload in listing.uploads {
                let path = Path::parse(&upload.key)?;
                // A store may read the prefix more loosely than we do.
                if upload.initiated < began_before && path.prefix_matches(place) {
                    self.bucket.abort_multipart(&path, &upload.upload_id).await?;
                    aborted += 1;
                }
            }
            marker = (listing.next_key_marker, listing.next_upload_id_marker);
            if !listing.is_truncated || marker.0.is_empty() {
                break;
            }
        }
        Ok(aborted)
    }

    /// Those behind `marker`, a key and an upload of it.
    async fn list(&self, place: &Path, marker: &(String, String)) -> Result<Listing, Failure> {
        let mut query = vec![("uploads", String::new()), ("prefix", format!("{place}/"))];
        if !marker.0.is_empty() {
            query.extend([("key-marker", marker.0.clone()), ("upload-id-marker", marker.1.clone())]);
        }
        let options = SignedUrlOptions::new().with_query(query);
        let url = self.bucket.signed_url_opts(Method::GET, &Path::default(), REQUEST_VALID, &options).await?;
        // The address holds a signature, which no error shall show.
        let mut answer = self.client.get(url).send().await.map_err(reqwest::Error::without_url)?;
        if answer.status() != StatusCode::OK {
            return Err(format!("the store answers {}", answer.status()).into());
        }
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > ANSWER_BYTES_MAX {
                return Err(format!("the store's list has more than {ANSWER_BYTES_MAX} bytes").into());
            }
        }
        Ok(quick_xml::de::from_reader(bytes.as_slice())?)
    }
}

#[cfg(test)]
mod tests;
