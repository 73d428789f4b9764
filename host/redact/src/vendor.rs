//! Keys that give themselves away by a prefix of their vendor.

use crate::kind::Kind;
use crate::run::{Runs, is_key_byte};
use crate::shape;

/// What follows a prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body {
    /// So many key bytes at least (letters, digits, `_`, `-`), a digit or mixed case among them.
    Key(usize),
    /// So many key bytes and dots at least.
    Dotted(usize),
    /// Letters and digits, exactly so many, upper case and digits only.
    Upper(usize),
    /// Hexadecimal digits, exactly so many.
    Hex(usize),
    /// Letters and digits, exactly so many.
    Exactly(usize),
    /// Whatever a URL's path goes on with, so many bytes at least.
    Path(usize),
}

/// A vendor's prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vendor {
    pub(crate) prefix: &'static str,
    pub(crate) kind: Kind,
    pub(crate) body: Body,
}

const fn vendor(prefix: &'static str, kind: Kind, body: Body) -> Vendor {
    Vendor { prefix, kind, body }
}

/// Prefixes as the vendors document them, and as the rules of gitleaks (MIT) list them.
pub(crate) const VENDORS: &[Vendor] = &[
    vendor("sk-", Kind::ModelKey, Body::Key(20)),
    vendor("gsk_", Kind::ModelHostKey, Body::Key(32)),
    vendor("xai-", Kind::ModelHostKey, Body::Key(32)),
    vendor("r8_", Kind::ModelHostKey, Body::Key(32)),
    vendor("pplx-", Kind::ModelHostKey, Body::Key(32)),
    vendor("hf_", Kind::ModelHostKey, Body::Key(30)),
    vendor("api_org_", Kind::ModelHostKey, Body::Key(30)),
    vendor("nvapi-", Kind::ModelHostKey, Body::Key(40)),
    vendor("fw_", Kind::ModelHostKey, Body::Key(22)),
    vendor("ghp_", Kind::GitHub, Body::Key(30)),
    vendor("gho_", Kind::GitHub, Body::Key(30)),
    vendor("ghu_", Kind::GitHub, Body::Key(30)),
    vendor("ghs_", Kind::GitHub, Body::Key(30)),
    vendor("ghr_", Kind::GitHub, Body::Key(30)),
    vendor("github_pat_", Kind::GitHub, Body::Key(36)),
    vendor("glpat-", Kind::GitLab, Body::Dotted(20)),
    vendor("glptt-", Kind::GitLab, Body::Key(20)),
    vendor("gldt-", Kind::GitLab, Body::Key(20)),
    vendor("glrt-", Kind::GitLab, Body::Key(20)),
    vendor("glcbt-", Kind::GitLab, Body::Key(20)),
    vendor("glsoat-", Kind::GitLab, Body::Key(20)),
    vendor("GR1348941", Kind::GitLab, Body::Key(20)),
    vendor("AKIA", Kind::AwsKeyId, Body::Upper(16)),
    vendor("ASIA", Kind::AwsKeyId, Body::Upper(16)),
    vendor("ABIA", Kind::AwsKeyId, Body::Upper(16)),
    vendor("ACCA", Kind::AwsKeyId, Body::Upper(16)),
    vendor("AIza", Kind::GoogleKey, Body::Key(35)),
    vendor("ya29.", Kind::GoogleOauth, Body::Key(30)),
    vendor("GOCSPX-", Kind::GoogleOauth, Body::Key(24)),
    vendor("1//0", Kind::GoogleOauth, Body::Key(35)),
    vendor("xoxb-", Kind::Slack, Body::Key(20)),
    vendor("xoxp-", Kind::Slack, Body::Key(20)),
    vendor("xoxa-", Kind::Slack, Body::Key(20)),
    vendor("xoxr-", Kind::Slack, Body::Key(20)),
    vendor("xoxs-", Kind::Slack, Body::Key(20)),
    vendor("xoxe-", Kind::Slack, Body::Key(20)),
    vendor("xoxe.xox", Kind::Slack, Body::Key(20)),
    vendor("xoxc-", Kind::Slack, Body::Key(20)),
    vendor("xoxd-", Kind::Slack, Body::Path(20)),
    vendor("xapp-", Kind::Slack, Body::Key(20)),
    vendor("hooks.slack.com/services/", Kind::Webhook, Body::Path(20)),
    vendor("hooks.slack.com/workflows/", Kind::Webhook, Body::Path(20)),
    vendor("discord.com/api/webhooks/", Kind::Webhook, Body::Path(40)),
    vendor("discordapp.com/api/webhooks/", Kind::Webhook, Body::Path(40)),
    vendor("webhook.office.com/webhookb2/", Kind::Webhook, Body::Path(40)),
    vendor("sk_live_", Kind::Stripe, Body::Key(16)),
    vendor("sk_test_", Kind::Stripe, Body::Key(16)),
    vendor("rk_live_", Kind::Stripe, Body::Key(16)),
    vendor("rk_test_", Kind::Stripe, Body::Key(16)),
    vendor("whsec_", Kind::Stripe, Body::Path(24)),
    vendor("SG.", Kind::SendGrid, Body::Dotted(60)),
    vendor("key-", Kind::Mailgun, Body::Hex(32)),
    vendor("npm_", Kind::Npm, Body::Key(36)),
    vendor("pypi-AgE", Kind::PyPi, Body::Key(50)),
    vendor("cio", Kind::CratesIo, Body::Exactly(32)),
    vendor("dckr_pat_", Kind::DockerHub, Body::Key(24)),
    vendor("dckr_oat_", Kind::DockerHub, Body::Key(24)),
    vendor("dop_v1_", Kind::DigitalOcean, Body::Hex(64)),
    vendor("doo_v1_", Kind::DigitalOcean, Body::Hex(64)),
    vendor("dor_v1_", Kind::DigitalOcean, Body::Hex(64)),
    vendor("HRKU-", Kind::Heroku, Body::Key(36)),
    vendor("shpat_", Kind::Shopify, Body::Hex(32)),
    vendor("shpca_", Kind::Shopify, Body::Hex(32)),
    vendor("shppa_", Kind::Shopify, Body::Hex(32)),
    vendor("shpss_", Kind::Shopify, Body::Hex(32)),
    vendor("dapi", Kind::Databricks, Body::Hex(32)),
    vendor("hvs.", Kind::Vault, Body::Key(24)),
    vendor("hvb.", Kind::Vault, Body::Key(24)),
    vendor("hvr.", Kind::Vault, Body::Key(24)),
    vendor("lin_api_", Kind::Service, Body::Key(32)),
    vendor("ntn_", Kind::Service, Body::Key(40)),
    vendor("figd_", Kind::Service, Body::Key(32)),
    vendor("PMAK-", Kind::Service, Body::Key(48)),
    vendor("NRAK-", Kind::Service, Body::Key(24)),
    vendor("glsa_", Kind::Service, Body::Key(32)),
    vendor("glc_", Kind::Service, Body::Key(32)),
    vendor("sntrys_", Kind::Service, Body::Key(40)),
    vendor("sntryu_", Kind::Service, Body::Hex(64)),
    vendor("sq0csp-", Kind::Service, Body::Key(40)),
    vendor("sq0atp-", Kind::Service, Body::Key(20)),
    vendor("pscale_tkn_", Kind::Service, Body::Key(30)),
    vendor("pscale_pw_", Kind::Service, Body::Key(30)),
    vendor("sbp_", Kind::Service, Body::Hex(40)),
    vendor("ATATT3", Kind::Service, Body::Path(60)),
    vendor("dp.pt.", Kind::Service, Body::Key(40)),
    vendor("dp.st.", Kind::Service, Body::Dotted(40)),
    vendor("tskey-", Kind::Service, Body::Key(20)),
    vendor("rubygems_", Kind::Service, Body::Hex(48)),
    vendor("AGE-SECRET-KEY-1", Kind::Service, Body::Key(50)),
    vendor("ops_eyJ", Kind::Service, Body::Key(40)),
    vendor("EAACEdEose0cBA", Kind::Service, Body::Key(20)),
];

/// Measures the runs after prefixes; many prefixes in one run share its measure.
pub(crate) struct Bodies {
    key: Runs,
    dotted: Runs,
    path: Runs,
    upper: Runs,
    hex: Runs,
}

impl Bodies {
    pub(crate) fn new() -> Bodies {
        Bodies {
            key: Runs::of(is_key_byte),
            dotted: Runs::of(|byte| is_key_byte(byte) || byte == b'.'),
            path: Runs::of(|byte| is_key_byte(byte) || matches!(byte, b'/' | b'.' | b'+' | b'=' | b'@' | b'%')),
            upper: Runs::of(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
            hex: Runs::of(|byte| byte.is_ascii_hexdigit()),
        }
    }

    /// Returns the end of the vendor's key that begins here, prefix included, if there is one.
    pub(crate) fn key_end(&mut self, vendor: &Vendor, text: &str, at: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        let from = at + vendor.prefix.len();
        let (end, least, is_exact) = match vendor.body {
            Body::Key(least) => (self.key.end(bytes, from), least, false),
            Body::Dotted(least) => (self.dotted.end(bytes, from), least, false),
            Body::Path(least) => (self.path.end(bytes, from), least, false),
            Body::Exactly(exact) => (self.key.end(bytes, from), exact, true),
            Body::Upper(exact) => (self.upper.end(bytes, from), exact, true),
            Body::Hex(exact) => (self.hex.end(bytes, from), exact, true),
        };
        let length = end - from;
        if length < least || (is_exact && (length > least || bytes.get(end).is_some_and(u8::is_ascii_alphanumeric))) {
            return None;
        }
        let body = text.get(from..end)?;
        // The sign that ends a sentence is no part of a key.
        let cut = body.bytes().rev().take(8).take_while(|byte| matches!(byte, b'.' | b'-' | b'=')).count();
        let looked = shape::prefix(body);
        let has = |test: fn(&u8) -> bool| looked.as_bytes().iter().any(test);
        let is_random = has(u8::is_ascii_digit) || (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
        (is_random && !shape::is_placeholder(looked) && !is_words(looked)).then_some(end - cut)
    }
}

/// Tells whether all parts are words, as in `sk-this-is-not-a-key-2`.
fn is_words(body: &str) -> bool {
    let mut parts = body.split(['-', '_']).filter(|part| !part.is_empty());
    body.contains(['-', '_'])
        && parts.all(|part| {
            part.bytes().all(|byte| byte.is_ascii_lowercase())
                || (part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
}
