//! Numbers in decimal digits, without the machinery of formatting, which costs several times as much.

/// Appends the digits of `value`.
pub(crate) fn write(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers() {
        for value in [0, 7, 10, 612, u64::MAX] {
            let mut out = Vec::new();
            super::write(value, &mut out);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
