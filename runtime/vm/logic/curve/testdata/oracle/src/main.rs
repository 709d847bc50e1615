// Reads calls, a line each: a function's short name and its arguments in hex ("-" for none). Prints the line with the
// answer after it: "ok <hex>", "no" (the host function returns 1) or "err <text>" (it ends the call). With "+fix" after
// the name NEP-488's correction (bls12381_not_in_group_fix) is on. Nothing here checks the oracle's user: a wrong line
// panics.

mod bls;
mod bn128;
mod signatures;

use std::io::{BufRead, BufWriter, Write};

fn unhex(s: &str) -> Vec<u8> {
    if s == "-" {
        return vec![];
    }
    (0..s.len() / 2).map(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

fn answer(r: Result<Option<Vec<u8>>, String>) -> String {
    match r {
        Ok(Some(out)) => format!("ok {}", hex(&out)),
        Ok(None) => "no".to_string(),
        Err(text) => format!("err {text}"),
    }
}

fn main() {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let a: Vec<Vec<u8>> = words[1..].iter().map(|s| unhex(s)).collect();
        let (name, fix) = match words[0].strip_suffix("+fix") {
            Some(name) => (name, true),
            None => (words[0], false),
        };
        let result = match name {
            "bn_mul" => bn128::multiexp(&a[0]).map(Some),
            "bn_sum" => bn128::sum(&a[0]).map(Some),
            "bn_pair" => bn128::pairing(&a[0]).map(Some),
            "p1_sum" => bls::p1::sum(&a[0], fix),
            "p1_mul" => bls::p1::multiexp(&a[0], fix),
            "p1_dec" => bls::p1::decompress(&a[0], fix),
            "p2_sum" => bls::p2::sum(&a[0], fix),
            "p2_mul" => bls::p2::multiexp(&a[0], fix),
            "p2_dec" => bls::p2::decompress(&a[0], fix),
            "map1" => bls::map1(&a[0]),
            "map2" => bls::map2(&a[0]),
            "pair" => bls::pairing(&a[0]).map(Some),
            "p256" => Ok(Some(vec![signatures::p256(&a[0], &a[1], &a[2])])),
            "ed25519" => Ok(Some(vec![signatures::ed25519(&a[0], &a[1], &a[2])])),
            "ecrecover" => Ok(Some(signatures::ecrecover(&a[0], &a[1], a[2][0], a[2][1] != 0))),
            other => panic!("{other}"),
        };
        writeln!(out, "{line} {}", answer(result)).unwrap();
    }
}
