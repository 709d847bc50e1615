//! Inputs of the math host functions, each with a word for its kind.

pub mod bls;
pub mod bn;
pub mod sig;

use rand::Rng as _;

pub type Rng = rand_chacha::ChaCha8Rng;

/// What a case is meant to be, and its bytes.
pub type Case = (String, Vec<u8>);

pub fn bytes(rng: &mut Rng, n: usize) -> Vec<u8> {
    (0..n).map(|_| rng.gen()).collect()
}

pub fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.gen_range(0..100) < percent
}

/// How many elements a case has: mostly few.
pub fn count(rng: &mut Rng, most: usize) -> usize {
    match rng.gen_range(0..20) {
        0 => 0,
        1..=8 => 1,
        9..=17 => rng.gen_range(2..=5.min(most)),
        _ => rng.gen_range(1..=most),
    }
}

/// Now and then the length is wrong.
pub fn spoil(rng: &mut Rng, (mut kind, mut b): Case) -> Case {
    if chance(rng, 4) {
        if chance(rng, 50) && !b.is_empty() {
            let n = rng.gen_range(0..b.len());
            b.truncate(n);
        } else {
            b.push(rng.gen());
        }
        kind += ", length";
    }
    (kind, b)
}

/// A universal state init: canonical, decodable in another form, or garbage.
pub fn universal(rng: &mut Rng) -> Case {
    match rng.gen_range(0..12) {
        0 => return ("empty".into(), vec![0; 10]),
        1 => {
            let n = rng.gen_range(0..120);
            return ("garbage".into(), bytes(rng, n));
        }
        2 => {
            let (n, b) = (rng.gen_range(0..6000), rng.gen_range(0..3));
            return (format!("{n} times {b}"), vec![b; n]);
        }
        _ => {}
    }
    let code: Vec<u8> = match rng.gen_range(0..4) {
        0 => [&[1, 0][..], &bytes(rng, 32)].concat(),
        1 => {
            let id = ["bob.near", "a", "Bob", "0s0123456789abcdef0123456789abcdef01234567", ""][rng.gen_range(0..5)];
            [&[1, 1][..], &(id.len() as u32).to_le_bytes(), id.as_bytes()].concat()
        }
        _ => vec![0],
    };
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = (0..rng.gen_range(0..6))
        .map(|_| {
            let (n, m) = (rng.gen_range(0..4), rng.gen_range(0..30));
            (bytes(rng, n), bytes(rng, m))
        })
        .collect();
    let mut keys: Vec<Vec<u8>> = (0..rng.gen_range(0..4))
        .map(|_| {
            let (tag, n) = [(0, 32), (1, 64), (3, 32)][rng.gen_range(0..3)];
            [&[tag][..], &bytes(rng, n)].concat()
        })
        .collect();
    entries.sort();
    entries.dedup_by(|a, b| a.0 == b.0);
    keys.sort();
    let strange = if chance(rng, 40) { rng.gen_range(0..9) } else { 9 };
    let kind = ["entries reversed", "keys reversed", "entry twice", "key twice", "key of a bad tag", "longer", "shorter", "version 2", "flipped", "canonical"][strange];
    match strange {
        0 => entries.reverse(),
        1 => keys.reverse(),
        2 => entries.extend(entries.last().cloned()),
        3 => keys.extend(keys.last().cloned()),
        4 => keys.push([&[2][..], &bytes(rng, 32)].concat()),
        _ => {}
    }
    let mut b = [&[0][..], &code, &(entries.len() as u32).to_le_bytes()].concat();
    for (k, v) in &entries {
        for x in [k, v] {
            b.extend((x.len() as u32).to_le_bytes());
            b.extend(x);
        }
    }
    b.extend((keys.len() as u32).to_le_bytes());
    b.extend(keys.concat());
    match strange {
        5 => b.push(0),
        6 => b.truncate(rng.gen_range(0..b.len())),
        7 => b[0] = 1,
        8 => flip(rng, &mut b),
        _ => {}
    }
    (kind.into(), b)
}

/// One flipped bit.
pub fn flip(rng: &mut Rng, b: &mut [u8]) {
    let i = rng.gen_range(0..b.len());
    b[i] ^= 1 << rng.gen_range(0..8);
}

/// 32 bytes, little endian: a scalar of some kind, given the group's order.
pub fn scalar(rng: &mut Rng, order: &[u8; 32]) -> [u8; 32] {
    let mut s = [0u8; 32];
    match rng.gen_range(0..14) {
        0 => {}
        1 => s[0] = 1,
        2 => s[0] = 2,
        3 => s = *order,
        4 => {
            s = *order;
            s[0] -= 1; // both orders end in 01
        }
        5 => {
            s = *order;
            s[0] += 1;
        }
        6 => s = [0xff; 32],
        7 => s[rng.gen_range(0..32)] = 1 << rng.gen_range(0..8),
        8 => s[..8].copy_from_slice(&rng.gen::<[u8; 8]>()),
        9 => s = rng.gen(),
        _ => {
            s = rng.gen();
            s[31] &= 0x1f; // less than the order
        }
    }
    s
}

/// Elements of a sum or multiexp: points, some of them seen before, each between a prefix and a suffix.
pub fn elements(
    rng: &mut Rng,
    most: usize,
    point: fn(&mut Rng, bool) -> Case,
    prefix: fn(&mut Rng) -> Vec<u8>,
    suffix: fn(&mut Rng) -> Vec<u8>,
) -> Case {
    let n = count(rng, most);
    let bad = if n > 0 && chance(rng, 30) { rng.gen_range(0..n) } else { n };
    let mut kind = format!("{n} points");
    let (mut all, mut seen) = (vec![], vec![]);
    for i in 0..n {
        let (k, p) = if i != bad && !seen.is_empty() && chance(rng, 25) {
            ("again".into(), Vec::clone(&seen[rng.gen_range(0..seen.len())]))
        } else {
            point(rng, i == bad)
        };
        if k != "random" {
            kind += &format!(", {k}");
        }
        all.extend(prefix(rng));
        all.extend(&p);
        all.extend(suffix(rng));
        seen.push(p);
    }
    spoil(rng, (kind, all))
}

/// The sign byte of a sum: 0 or 1, seldom something else.
pub fn sign(rng: &mut Rng) -> Vec<u8> {
    vec![if chance(rng, 2) { rng.gen() } else { rng.gen_range(0..2) }]
}

pub fn nothing(_: &mut Rng) -> Vec<u8> {
    vec![]
}
