//! Payloads by content: the same bytes are stored once, made smaller where that pays, and proved by their hash when read.

use crate::error::{StoreError, while_doing};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// Payloads below this stay as they are: a search reads them, and a frame of zstd's costs some thirty bytes.
const COMPRESS_FROM_BYTES: usize = 256;
/// zstd's level; 3 is its default, with 87 MB/s in and 230 MB/s out measured on agent messages.
const LEVEL: i32 = 3;
/// A compressed payload is kept only if it saves at least an eighth.
const SAVES_AT_LEAST: usize = 8;
/// Bytes of one payload at most, so that a damaged length cannot fill the memory.
pub(crate) const BODY_BYTES_MAX: usize = 512 * 1024 * 1024;
/// The store trains a dictionary from its own messages when it has this many payloads: they resemble each other.
const TRAIN_AT_BODIES: i64 = 4_096;
/// Bytes of the dictionary; zstd's own default.
const DICTIONARY_BYTES: usize = 110 * 1024;

const PLAIN: i64 = 0;
const ZSTD: i64 = 1;
/// Codecs from here on are zstd with the dictionary of the number less this.
const WITH_DICTIONARY: i64 = 16;

/// What a content is known by.
pub(crate) type Hash = [u8; 32];

/// Returns the hash of a payload.
pub(crate) fn hash(payload: &[u8]) -> Hash {
    Sha256::digest(payload).into()
}

fn head(hash: &Hash) -> i64 {
    let mut first = [0u8; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(first)
}

/// A dictionary, ready for use in both directions: making it ready takes longer than packing a message with it.
struct Dictionary {
    packing: EncoderDictionary<'static>,
    opening: DecoderDictionary<'static>,
}

/// The dictionaries that are loaded; shared by writer and readers.
#[derive(Clone, Default)]
pub(crate) struct Bodies {
    dictionaries: Arc<Mutex<HashMap<i64, Arc<Dictionary>>>>,
}

impl Bodies {
    /// Stores a payload and returns its id; the same payload has the same id.
    pub(crate) fn put(&self, conn: &Connection, payload: &[u8]) -> Result<i64, StoreError> {
        let doing = while_doing("storing a message");
        if payload.len() > BODY_BYTES_MAX {
            let (bytes, most) = (payload.len(), BODY_BYTES_MAX);
            return Err(StoreError::Invalid(format!(
                "a message of {bytes} bytes is too large, at most {most} are stored"
            )));
        }
        let hash = hash(payload);
        let head = head(&hash);
        let mut same = conn.prepare_cached("SELECT id FROM bodies WHERE head = ?1 AND hash = ?2").map_err(&doing)?;
        let found: Option<i64> =
            same.query_row(params![head, &hash[..]], |row| row.get(0)).optional().map_err(&doing)?;
        if let Some(id) = found {
            return Ok(id);
        }
        let (codec, data) = self.pack(conn, payload)?;
        let mut insert = conn
            .prepare_cached("INSERT INTO bodies (head, hash, bytes, codec, data) VALUES (?1, ?2, ?3, ?4, ?5)")
            .map_err(&doing)?;
        let bytes = i64::try_from(payload.len()).unwrap_or(i64::MAX);
        let data = data.as_deref().unwrap_or(payload);
        insert.insert(params![head, &hash[..], bytes, codec, data]).map_err(&doing)
    }

    fn pack(&self, conn: &Connection, payload: &[u8]) -> Result<(i64, Option<Vec<u8>>), StoreError> {
        if payload.len() < COMPRESS_FROM_BYTES {
            return Ok((PLAIN, None));
        }
        let newest = self.newest_dictionary(conn)?;
        let packed = match &newest {
            Some((_, dictionary)) => {
                let packer = zstd::bulk::Compressor::with_prepared_dictionary(&dictionary.packing);
                packer.and_then(|mut packer| packer.compress(payload))
            }
            None => zstd::bulk::compress(payload, LEVEL),
        };
        let codec = newest.map_or(ZSTD, |(id, _)| WITH_DICTIONARY + id);
        Ok(match packed {
            Ok(data) if data.len() + payload.len() / SAVES_AT_LEAST <= payload.len() => (codec, Some(data)),
            _ => (PLAIN, None),
        })
    }

    /// Returns a payload, proved by its hash.
    pub(crate) fn get(&self, conn: &Connection, id: i64) -> Result<Vec<u8>, StoreError> {
        let (payload, wanted) = self.get_unproved(conn, id)?;
        if hash(&payload)[..] != wanted[..] {
            let why = format!("payload {id} is not what was stored: its hash differs");
            return Err(StoreError::Damaged { doing: "reading a message", why });
        }
        Ok(payload)
    }

    /// Returns a payload and the hash that it should have.
    pub(crate) fn get_unproved(&self, conn: &Connection, id: i64) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
        let doing = while_doing("reading a message");
        let mut select =
            conn.prepare_cached("SELECT codec, bytes, data, hash FROM bodies WHERE id = ?1").map_err(&doing)?;
        let found = select
            .query_row([id], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?, row.get::<_, Vec<u8>>(3)?))
            })
            .optional()
            .map_err(&doing)?;
        let Some((codec, bytes, data, hash)) = found else {
            let why = format!("payload {id} is missing");
            return Err(StoreError::Damaged { doing: "reading a message", why });
        };
        Ok((self.unpack(conn, id, codec, bytes, data)?, hash))
    }

    pub(crate) fn unpack(
        &self,
        conn: &Connection,
        id: i64,
        codec: i64,
        bytes: i64,
        data: Vec<u8>,
    ) -> Result<Vec<u8>, StoreError> {
        if codec == PLAIN {
            return Ok(data);
        }
        let damaged = |why: String| StoreError::Damaged { doing: "reading a message", why };
        let most = usize::try_from(bytes).ok().filter(|&bytes| bytes <= BODY_BYTES_MAX);
        let most = most.ok_or_else(|| damaged(format!("payload {id} claims {bytes} bytes")))?;
        let unpacked = match codec - WITH_DICTIONARY {
            number if number > 0 => {
                let dictionary = self.dictionary(conn, number)?;
                let opener = zstd::bulk::Decompressor::with_prepared_dictionary(&dictionary.opening);
                opener.and_then(|mut opener| opener.decompress(&data, most))
            }
            _ => zstd::bulk::decompress(&data, most),
        };
        unpacked.map_err(|error| damaged(format!("payload {id} cannot be unpacked: {error}")))
    }

    fn dictionary(&self, conn: &Connection, id: i64) -> Result<Arc<Dictionary>, StoreError> {
        if let Some(found) = self.loaded().get(&id) {
            return Ok(Arc::clone(found));
        }
        let data: Vec<u8> = conn
            .query_row("SELECT data FROM dictionaries WHERE id = ?1", [id], |row| row.get(0))
            .map_err(while_doing("reading a dictionary"))?;
        let packing = EncoderDictionary::copy(&data, LEVEL);
        let made = Arc::new(Dictionary { packing, opening: DecoderDictionary::copy(&data) });
        self.loaded().insert(id, Arc::clone(&made));
        Ok(made)
    }

    fn newest_dictionary(&self, conn: &Connection) -> Result<Option<(i64, Arc<Dictionary>)>, StoreError> {
        let doing = while_doing("reading a dictionary");
        let mut newest = conn.prepare_cached("SELECT max(id) FROM dictionaries").map_err(&doing)?;
        let id: Option<i64> = newest.query_row([], |row| row.get(0)).map_err(&doing)?;
        id.map(|id| Ok((id, self.dictionary(conn, id)?))).transpose()
    }

    /// Tells whether there is no dictionary yet, and enough to train one from.
    pub(crate) fn wants_training(&self, conn: &Connection) -> Result<bool, StoreError> {
        if !self.loaded().is_empty() {
            return Ok(false);
        }
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM dictionaries) AND coalesce((SELECT max(id) FROM bodies), 0) >= ?1";
        conn.query_row(sql, [TRAIN_AT_BODIES], |row| row.get(0)).map_err(while_doing("training a dictionary"))
    }

    /// Trains the store's dictionary from the newest payloads.
    pub(crate) fn train(&self, conn: &Connection) -> Result<bool, StoreError> {
        let doing = while_doing("training a dictionary");
        if !self.wants_training(conn)? {
            return Ok(false);
        }
        let mut select = conn
            .prepare(
                "SELECT id, codec, bytes, data FROM bodies WHERE bytes BETWEEN 64 AND 8192 ORDER BY id DESC LIMIT ?1",
            )
            .map_err(&doing)?;
        let mut rows = select.query([TRAIN_AT_BODIES]).map_err(&doing)?;
        let mut samples: Vec<Vec<u8>> = Vec::new();
        while let Some(row) = rows.next().map_err(&doing)? {
            let (id, codec, bytes) =
                (row.get(0).map_err(&doing)?, row.get(1).map_err(&doing)?, row.get(2).map_err(&doing)?);
            samples.push(self.unpack(conn, id, codec, bytes, row.get(3).map_err(&doing)?)?);
        }
        let Ok(data) = zstd::dict::from_samples(&samples, DICTIONARY_BYTES) else {
            // Too few or too unlike: messages are then compressed each by itself.
            return Ok(false);
        };
        conn.execute("INSERT INTO dictionaries (data) VALUES (?1)", [data]).map_err(&doing)?;
        Ok(true)
    }

    fn loaded(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Arc<Dictionary>>> {
        self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
