//! BLS12-381: points as 48-byte big-endian coordinates, c1 before c0, with the flags in the first three bits.

use super::{bytes, chance, elements, flip, nothing, sign, spoil, Case, Rng};
use ark_bls12_381::{Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField, UniformRand, Zero};
use rand::Rng as _;

const COMPRESSED: u8 = 0x80;
const INFINITY: u8 = 0x40;
const SORT: u8 = 0x20;

fn be(f: &Fq) -> Vec<u8> {
    f.into_bigint().to_bytes_be()
}

fn be2(f: &Fq2) -> Vec<u8> {
    [be(&f.c1), be(&f.c0)].concat()
}

/// The field's modulus and what is added to it.
fn over(n: u64) -> Vec<u8> {
    let mut p = Fq::MODULUS;
    p.add_with_carry(&n.into());
    p.to_bytes_be()
}

fn encode1(p: &G1Affine) -> Vec<u8> {
    match p.xy() {
        Some((x, y)) => [be(&x), be(&y)].concat(),
        None => infinity(96, INFINITY),
    }
}

fn encode2(p: &G2Affine) -> Vec<u8> {
    match p.xy() {
        Some((x, y)) => [be2(&x), be2(&y)].concat(),
        None => infinity(192, INFINITY),
    }
}

fn infinity(n: usize, flags: u8) -> Vec<u8> {
    let mut b = vec![0; n];
    b[0] = flags;
    b
}

fn outside1(rng: &mut Rng) -> G1Affine {
    loop {
        if let Some(p) = G1Affine::get_point_from_x_unchecked(Fq::rand(rng), rng.gen()) {
            return p;
        }
    }
}

fn outside2(rng: &mut Rng) -> G2Affine {
    loop {
        if let Some(p) = G2Affine::get_point_from_x_unchecked(Fq2::rand(rng), rng.gen()) {
            return p;
        }
    }
}

/// Points of a small order: (0, 2) and (0, -2) of G1's curve; one of order 13 of G2's.
fn small1(rng: &mut Rng) -> G1Affine {
    let y = if rng.gen() { Fq::from(2) } else { -Fq::from(2) };
    G1Affine::new_unchecked(Fq::ZERO, y)
}

fn small2(rng: &mut Rng) -> G2Affine {
    // The cofactor of G2 is a multiple of 13²; cofactor·order/13² brings any point to the 13-torsion or to infinity.
    let cofactor = num(G2_COFACTOR);
    let (mut rest, _) = divide(&cofactor, 169);
    loop {
        let mut p = outside2(rng).into_group().into_affine().mul_bigint(Fr::MODULUS).into_affine();
        p = p.mul_bigint(&rest).into_affine();
        if !p.is_zero() {
            return p;
        }
        rest = divide(&cofactor, 13).0;
    }
}

const G2_COFACTOR: &str = "5d543a95414e7f1091d50792876a202cd91de4547085abaa68a205b2e5a7ddfa628f1cb4d9e82ef21537e293a6691ae1616ec6e786f0c70cf1c38e31c7238e5";

/// Hex to little-endian words.
fn num(hex: &str) -> Vec<u64> {
    let padded = format!("{hex:0>128}");
    (0..8).rev().map(|i| u64::from_str_radix(&padded[16 * i..16 * i + 16], 16).unwrap()).collect()
}

fn divide(a: &[u64], by: u64) -> (Vec<u64>, u64) {
    let (mut q, mut r) = (vec![0; a.len()], 0u128);
    for i in (0..a.len()).rev() {
        let n = r << 64 | a[i] as u128;
        q[i] = (n / by as u128) as u64;
        r = n % by as u128;
    }
    (q, r as u64)
}

pub fn point1(rng: &mut Rng, bad: bool) -> Case {
    if !bad {
        return match rng.gen_range(0..20) {
            0..=1 => ("infinity".into(), infinity(96, INFINITY)),
            2..=3 => ("outside".into(), encode1(&outside1(rng))),
            4 => ("small order".into(), encode1(&small1(rng))),
            5 => ("generator".into(), encode1(&G1Affine::generator())),
            6 => ("minus generator".into(), encode1(&-G1Affine::generator())),
            _ => ("random".into(), encode1(&G1Projective::rand(rng).into_affine())),
        };
    }
    let mut p = encode1(&G1Projective::rand(rng).into_affine());
    odd(rng, &mut p, 48)
}

pub fn point2(rng: &mut Rng, bad: bool) -> Case {
    if !bad {
        return match rng.gen_range(0..20) {
            0..=1 => ("infinity".into(), infinity(192, INFINITY)),
            2..=3 => ("outside".into(), encode2(&outside2(rng))),
            4 => ("small order".into(), encode2(&small2(rng))),
            5 => ("generator".into(), encode2(&G2Affine::generator())),
            6 => ("minus generator".into(), encode2(&-G2Affine::generator())),
            _ => ("random".into(), encode2(&G2Projective::rand(rng).into_affine())),
        };
    }
    let mut p = encode2(&G2Projective::rand(rng).into_affine());
    odd(rng, &mut p, 48)
}

/// Spoils an encoded point whose coordinates are of n bytes.
fn odd(rng: &mut Rng, p: &mut Vec<u8>, n: usize) -> Case {
    let len = p.len();
    let kind = match rng.gen_range(0..16) {
        0 => {
            *p = infinity(len, INFINITY);
            let i = rng.gen_range(1..len);
            p[i] = rng.gen_range(1..=255);
            "infinity with more"
        }
        1 => {
            *p = infinity(len, INFINITY | SORT);
            "infinity with sort"
        }
        2 => {
            *p = infinity(len, INFINITY | COMPRESSED);
            "infinity, compressed"
        }
        3 => {
            p[0] |= COMPRESSED;
            "compressed flag"
        }
        4 => {
            p[0] |= SORT;
            "sort flag"
        }
        5 => {
            p[0] |= INFINITY;
            "infinity flag"
        }
        6 => {
            p[0] |= COMPRESSED | SORT;
            "compressed and sort"
        }
        7 => {
            *p = vec![0; len];
            "zeros"
        }
        8 => {
            *p = bytes(rng, len);
            "noise"
        }
        9 => {
            *p = bytes(rng, len);
            p[0] &= 0x1f;
            "noise without flags"
        }
        10 | 11 => {
            let at = n * rng.gen_range(0..len / n);
            p[at..at + n].copy_from_slice(&over(rng.gen_range(0..4)));
            "coordinate over the modulus"
        }
        12 => {
            let at = n * rng.gen_range(0..len / n);
            p[at..at + n].fill(0);
            "coordinate zero"
        }
        13 => {
            let at = n * rng.gen_range(1..len / n);
            p[at] |= [COMPRESSED, INFINITY, SORT][rng.gen_range(0..3)];
            "flag in a later coordinate"
        }
        _ => {
            flip(rng, p);
            "flipped"
        }
    };
    (kind.into(), std::mem::take(p))
}

fn order() -> [u8; 32] {
    Fr::MODULUS.to_bytes_le().try_into().unwrap()
}

fn scalar(rng: &mut Rng) -> Vec<u8> {
    super::scalar(rng, &order()).to_vec()
}

pub fn sum1(rng: &mut Rng) -> Case {
    elements(rng, 40, point1, sign, nothing)
}

pub fn sum2(rng: &mut Rng) -> Case {
    elements(rng, 24, point2, sign, nothing)
}

/// Mostly points of the group, since one that is not ends it all.
fn group1(rng: &mut Rng, bad: bool) -> Case {
    loop {
        let p = point1(rng, bad);
        if bad || !matches!(p.0.as_str(), "outside" | "small order") || chance(rng, 4) {
            return p;
        }
    }
}

fn group2(rng: &mut Rng, bad: bool) -> Case {
    loop {
        let p = point2(rng, bad);
        if bad || !matches!(p.0.as_str(), "outside" | "small order") || chance(rng, 4) {
            return p;
        }
    }
}

pub fn multiexp1(rng: &mut Rng) -> Case {
    elements(rng, 40, group1, nothing, scalar)
}

pub fn multiexp2(rng: &mut Rng) -> Case {
    elements(rng, 20, group2, nothing, scalar)
}

fn field(rng: &mut Rng, bad: bool) -> Case {
    if bad {
        return match rng.gen_range(0..4) {
            0 => ("modulus".into(), over(0)),
            1 => ("over the modulus".into(), over(rng.gen())),
            2 => ("ones".into(), vec![0xff; 48]),
            _ => ("noise".into(), bytes(rng, 48)),
        };
    }
    match rng.gen_range(0..10) {
        0 => ("zero".into(), vec![0; 48]),
        1 => ("one".into(), be(&Fq::from(1))),
        2 => ("minus one".into(), be(&-Fq::from(1))),
        3 => ("small".into(), be(&Fq::from(rng.gen::<u16>()))),
        _ => ("random".into(), be(&Fq::rand(rng))),
    }
}

pub fn map1(rng: &mut Rng) -> Case {
    elements(rng, 10, field, nothing, nothing)
}

fn field2(rng: &mut Rng, bad: bool) -> Case {
    let which = rng.gen::<bool>();
    let (a, x) = field(rng, bad && which);
    let (b, y) = field(rng, bad && !which);
    (if a == b { a } else { format!("{a} and {b}") }, [x, y].concat())
}

pub fn map2(rng: &mut Rng) -> Case {
    elements(rng, 6, field2, nothing, nothing)
}

/// A point in half the bytes: x, and which y.
fn compress(x: Vec<u8>, larger: bool) -> Vec<u8> {
    let mut b = x;
    b[0] |= COMPRESSED | if larger { SORT } else { 0 };
    b
}

fn squeezed1(rng: &mut Rng, bad: bool) -> Case {
    let (kind, p) = point1(rng, false);
    squeezed(rng, bad, kind, p)
}

fn squeezed2(rng: &mut Rng, bad: bool) -> Case {
    let (kind, p) = point2(rng, false);
    squeezed(rng, bad, kind, p)
}

fn squeezed(rng: &mut Rng, bad: bool, kind: String, p: Vec<u8>) -> Case {
    let half = p.len() / 2;
    let mut b = if kind == "infinity" {
        infinity(half, COMPRESSED | INFINITY)
    } else {
        compress(p[..half].to_vec(), rng.gen())
    };
    if !bad {
        return (kind, b);
    }
    let kind = match rng.gen_range(0..9) {
        0 => {
            b[0] &= !COMPRESSED;
            "not compressed"
        }
        1 => {
            b[0] |= INFINITY;
            "infinity flag"
        }
        2 => {
            b = infinity(half, COMPRESSED | INFINITY | SORT);
            "infinity with sort"
        }
        3 => {
            b = infinity(half, COMPRESSED | INFINITY);
            let i = rng.gen_range(1..half);
            b[i] = 1;
            "infinity with more"
        }
        4 => {
            let at = 48 * rng.gen_range(0..half / 48);
            b[at..at + 48].copy_from_slice(&over(rng.gen_range(0..5)));
            b[0] |= COMPRESSED;
            "over the modulus"
        }
        5 => {
            b = infinity(half, COMPRESSED | if rng.gen() { SORT } else { 0 });
            "x is zero"
        }
        6 => {
            b = bytes(rng, half);
            b[0] = b[0] & 0x1f | COMPRESSED;
            "noise"
        }
        7 => {
            let at = rng.gen_range(0..half / 48) * 48;
            b[at] ^= [COMPRESSED, INFINITY, SORT][rng.gen_range(0..3)];
            "flag turned"
        }
        _ => {
            flip(rng, &mut b);
            "flipped"
        }
    };
    (kind.into(), b)
}

pub fn compressed1(rng: &mut Rng) -> Case {
    elements(rng, 10, squeezed1, nothing, nothing)
}

pub fn compressed2(rng: &mut Rng) -> Case {
    elements(rng, 8, squeezed2, nothing, nothing)
}

/// Pairs whose product is one, or not, or that are no pairs.
pub fn pairing(rng: &mut Rng) -> Case {
    let (mut kind, mut all) = (String::new(), vec![]);
    match rng.gen_range(0..10) {
        0..=4 => {
            // e(aP, bQ)·e(cP, dQ)·... with ab + cd + ... = 0, or one off
            let (p, q) = (G1Projective::rand(rng), G2Projective::rand(rng));
            let mut sum = Fr::zero();
            for _ in 0..rng.gen_range(1..4) {
                let (a, b) = (Fr::rand(rng), Fr::rand(rng));
                all.extend(encode1(&(p * a).into_affine()));
                all.extend(encode2(&(q * b).into_affine()));
                sum += a * b;
            }
            kind = "product one".into();
            if chance(rng, 30) {
                sum += Fr::ONE;
                kind = "product not one".into();
            }
            all.extend(encode1(&(-p * sum).into_affine()));
            all.extend(encode2(&q.into_affine()));
        }
        n => {
            let count = rng.gen_range(0..4);
            for i in 0..count {
                let bad = n > 7 && i + 1 == count;
                let (which, only_infinity) = (rng.gen::<bool>(), n == 5);
                let (a, x) = if only_infinity && which { point1_infinity() } else { group1(rng, bad && which) };
                let (b, y) = if only_infinity && !which { point2_infinity() } else { group2(rng, bad && !which) };
                kind += &format!("{a} and {b}; ");
                all.extend(x);
                all.extend(y);
            }
        }
    }
    spoil(rng, (kind, all))
}

fn point1_infinity() -> Case {
    ("infinity".into(), infinity(96, INFINITY))
}

fn point2_infinity() -> Case {
    ("infinity".into(), infinity(192, INFINITY))
}
