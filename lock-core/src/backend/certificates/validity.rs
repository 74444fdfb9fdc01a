//! The time until which a certificate is valid.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the last second in which the first certificate of a PEM text is valid, as `2027-05-31 23:59:59`. `None` if
/// the text is not understood.
pub(super) fn end(pem: &[u8]) -> Option<String> {
    let (_, rest) = str::from_utf8(pem).ok()?.split_once("-----BEGIN CERTIFICATE-----")?;
    let der = from_base64(rest.split_once("-----END")?.0)?;
    // RFC 5280: the version, which may be missing, the serial number, the algorithm and the issuer come before the
    // validity, which has a start and an end.
    let (_, certificate, _) = element(&der)?;
    let (_, mut fields, _) = element(certificate)?;
    let (first, _, _) = element(fields)?;
    for _ in 0..if first == VERSION { 4 } else { 3 } {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (kind, end, _) = element(element(validity)?.2)?;
    let end = str::from_utf8(end).ok().filter(|end| end.is_ascii())?;
    let century = match kind {
        UTC_TIME if end < "5" => "20",
        UTC_TIME => "19",
        _ => "",
    };
    let end = format!("{century}{end}");
    let part = |from: usize| end.get(from..from + 2);
    let (year, month, day) = (end.get(..4)?, part(4)?, part(6)?);
    Some(format!("{year}-{month}-{day} {}:{}:{}", part(8)?, part(10)?, part(12)?))
}

/// Returns a time in the form of [`end`].
pub(super) fn at(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02}", days + 1)
}

const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;

/// Returns kind and content of the first element of DER, and the rest behind the element.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, short], mut rest) = der.split_first_chunk()?;
    let mut length = usize::from(short);
    if short & 0x80 != 0 {
        let (bytes, behind) = rest.split_at_checked(usize::from(short & 0x7f))?;
        length = bytes.iter().try_fold(0usize, |length, byte| {
            length.checked_mul(256)?.checked_add(usize::from(*byte))
        })?;
        rest = behind;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((kind, content, rest))
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=');
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for digit in digits {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}
