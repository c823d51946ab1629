//! A swept option with its values, as it is written.

use crate::options::OptionError;

/// Reads `option=v1,v2,...`, `option=v1;v2;...` or `option=first..last..step`.
///
/// # Errors
/// No `=`, no values, or an invalid range.
pub fn parse_sweep(text: &str) -> Result<(String, Vec<String>), OptionError> {
    parse_axis("sweep", text)
}

/// [`parse_sweep`], for a flag of another name.
///
/// # Errors
/// As [`parse_sweep`], with this name.
pub fn parse_axis(flag: &str, text: &str) -> Result<(String, Vec<String>), OptionError> {
    let bad = |what: &str| {
        OptionError::usage(format!(
            "--{flag} takes OPTION=V1,V2,... or OPTION=FIRST..LAST..STEP: {what} in `{text}`"
        ))
    };
    let (name, values) = text.split_once('=').ok_or_else(|| bad("no `=`"))?;
    let bounds: Vec<&str> = values.split("..").collect();
    let values = match bounds[..] {
        [first, last, step] => {
            let number = |text: &str| text.trim().parse::<u64>().ok();
            let range = (number(first), number(last), number(step));
            let (Some(first), Some(last), Some(step)) = range else {
                return Err(bad("not whole numbers"));
            };
            if step == 0 || last < first || (last - first) / step > 10_000 {
                return Err(bad("no range"));
            }
            (first..=last).step_by(step as usize).map(|v| v.to_string()).collect()
        }
        _ => {
            let separator = if values.contains(';') { ';' } else { ',' };
            values.split(separator).map(|v| v.trim().to_string()).collect::<Vec<String>>()
        }
    };
    if values.iter().any(String::is_empty) {
        return Err(bad("an empty value"));
    }
    Ok((name.trim().to_string(), values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_lists_or_ranges() {
        let values = |text| parse_sweep(text).map(|(_, values)| values);
        assert_eq!(values("iops=100..300..100").unwrap(), ["100", "200", "300"]);
        assert_eq!(values("thresholds=90/80,70/40").unwrap(), ["90/80", "70/40"]);
        assert_eq!(values("policy=wow:0,2;lrw").unwrap(), ["wow:0,2", "lrw"]);
        assert!(
            values("iops").is_err() && values("iops=").is_err() && values("x=1..9..0").is_err()
        );
        let error = parse_axis("grid", "").unwrap_err().message;
        assert!(error.starts_with("--grid takes") && error.ends_with("no `=` in ``"), "{error}");
    }
}
