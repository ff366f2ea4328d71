//! Multipart uploads that nobody will finish: a writer was killed between the first part and the last. A store keeps their
//! parts, bills for them, and shows them in no listing of objects.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use object_store::aws::AmazonS3;
use object_store::multipart::MultipartStore as _;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer as _};
use reqwest::Method;
use serde::Deserialize;

/// How long a signed request counts.
const REQUEST_VALID: Duration = Duration::from_secs(60);
/// How long the store has for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A bucket, and the client for the one question that `object_store` does not ask.
#[derive(Debug, Clone)]
pub(crate) struct Uploads {
    bucket: Arc<AmazonS3>,
    client: reqwest::Client,
}

/// What a store answers to `ListMultipartUploads`; at most 1,000 of them.
#[derive(Debug, Deserialize)]
struct Listing {
    #[serde(rename = "Upload", default)]
    uploads: Vec<Upload>,
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
        Ok(Self { bucket, client: reqwest::Client::builder().timeout(ANSWER_MAX).build()? })
    }

    /// Aborts those below `place` that began more than `age` ago; returns how many.
    pub(crate) async fn abort_older(&self, place: &Path, age: Duration) -> Result<u64, Failure> {
        let began_before = DateTime::<Utc>::from(SystemTime::now() - age);
        let mut aborted = 0;
        for upload in self.list(place).await?.uploads {
            let path = Path::parse(&upload.key)?;
            // A store may read the prefix more loosely than we do.
            if upload.initiated < began_before && path.prefix_matches(place) {
                self.bucket.abort_multipart(&path, &upload.upload_id).await?;
                aborted += 1;
            }
        }
        Ok(aborted)
    }

    async fn list(&self, place: &Path) -> Result<Listing, Failure> {
        let query = [("uploads", String::new()), ("prefix", format!("{place}/"))];
        let options = SignedUrlOptions::new().with_query(query);
        let url = self.bucket.signed_url_opts(Method::GET, &Path::default(), REQUEST_VALID, &options).await?;
        // The address holds a signature, which no error shall show.
        let answer = self.client.get(url).send().await.map_err(reqwest::Error::without_url)?;
        let answer = answer.error_for_status().map_err(reqwest::Error::without_url)?;
        let text = answer.text().await.map_err(reqwest::Error::without_url)?;
        Ok(quick_xml::de::from_str(&text)?)
    }
}

#[cfg(test)]
mod tests;
