//! The forms of `/compress`.

use crate::cases;
use host_core::manual::{EXCHANGES_DEFAULT, read};

#[test]
fn every_observed_form_is_read_the_same_way() {
    let mut compared = 0;
    for case in cases("13-compress-command") {
        let Some(text) = case["input"]["args"].as_str() else { continue };
        let observed = &case["observed"];
        let manual = read(text);
        assert_eq!(Some(manual.keep_exchanges.is_some()), observed["parsed"][0].as_bool(), "{case}");
        let keep = u64::from(manual.keep_exchanges.unwrap_or(EXCHANGES_DEFAULT));
        assert_eq!(Some(keep), observed["parsed"][1].as_u64(), "{case}");
        assert_eq!(manual.focus, observed["parsed"][2].as_str().unwrap_or_default(), "{case}");
        assert_eq!(Some(manual.is_preview), observed["flags"][1].as_bool(), "{case}");
        assert_eq!(Some(!manual.refused.is_empty()), observed["flags"][2].as_bool(), "{case}");
        compared += 1;
    }
    assert_eq!(compared, 10);
}
