//! alt_bn128: coordinates of 32 bytes, little endian, c0 before c1; the point at infinity is all zeros.

use super::{bytes, chance, elements, flip, nothing, sign, spoil, Case, Rng};
use ark_bn254::{Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{BigInteger, Field, PrimeField, UniformRand, Zero};
use rand::Rng as _;

fn le(f: &Fq) -> Vec<u8> {
    f.into_bigint().to_bytes_le()
}

fn le2(f: &Fq2) -> Vec<u8> {
    [le(&f.c0), le(&f.c1)].concat()
}

fn over(n: u64) -> Vec<u8> {
    let mut p = Fq::MODULUS;
    p.add_with_carry(&n.into());
    p.to_bytes_le()
}

fn encode1(p: &G1Affine) -> Vec<u8> {
    p.xy().map_or(vec![0; 64], |(x, y)| [le(&x), le(&y)].concat())
}

fn encode2(p: &G2Affine) -> Vec<u8> {
    p.xy().map_or(vec![0; 128], |(x, y)| [le2(&x), le2(&y)].concat())
}

fn outside2(rng: &mut Rng) -> G2Affine {
    loop {
        if let Some(p) = G2Affine::get_point_from_x_unchecked(Fq2::rand(rng), rng.gen()) {
            return p;
        }
    }
}

fn odd(rng: &mut Rng, p: &mut Vec<u8>) -> Case {
    let len = p.len();
    let at = 32 * rng.gen_range(0..len / 32);
    let kind = match rng.gen_range(0..7) {
        0 | 1 => {
            p[at..at + 32].copy_from_slice(&over(rng.gen_range(0..4)));
            "coordinate over the modulus"
        }
        2 => {
            p[at..at + 32].fill(0);
            "coordinate zero"
        }
        3 => {
            *p = bytes(rng, len);
            "noise"
        }
        4 => {
            p[at..at + 32].fill(0xff);
            "coordinate of ones"
        }
        5 => {
            let half = len / 2;
            p.rotate_left(half);
            "x and y changed"
        }
        _ => {
            flip(rng, p);
            "flipped"
        }
    };
    (kind.into(), std::mem::take(p))
}

fn point1(rng: &mut Rng, bad: bool) -> Case {
    if bad {
        let mut p = encode1(&G1Projective::rand(rng).into_affine());
        return odd(rng, &mut p);
    }
    match rng.gen_range(0..12) {
        0..=1 => ("infinity".into(), vec![0; 64]),
        2 => ("generator".into(), encode1(&G1Affine::generator())),
        3 => ("minus generator".into(), encode1(&-G1Affine::generator())),
        _ => ("random".into(), encode1(&G1Projective::rand(rng).into_affine())),
    }
}

fn point2(rng: &mut Rng, bad: bool) -> Case {
    if bad {
        if chance(rng, 25) {
            return ("outside".into(), encode2(&outside2(rng)));
        }
        let mut p = encode2(&G2Projective::rand(rng).into_affine());
        return odd(rng, &mut p);
    }
    match rng.gen_range(0..12) {
        0..=1 => ("infinity".into(), vec![0; 128]),
        2 => ("generator".into(), encode2(&G2Affine::generator())),
        3 => ("minus generator".into(), encode2(&-G2Affine::generator())),
        _ => ("random".into(), encode2(&G2Projective::rand(rng).into_affine())),
    }
}

fn scalar(rng: &mut Rng) -> Vec<u8> {
    let order: [u8; 32] = Fr::MODULUS.to_bytes_le().try_into().unwrap();
    loop {
        let s = super::scalar(rng, &order);
        // Over the order is an error; not too often.
        if s.iter().rev().lt(order.iter().rev()) || chance(rng, 20) {
            return s.to_vec();
        }
    }
}

pub fn multiexp(rng: &mut Rng) -> Case {
    elements(rng, 40, point1, nothing, scalar)
}

pub fn sum(rng: &mut Rng) -> Case {
    elements(rng, 40, point1, sign, nothing)
}

pub fn pairing(rng: &mut Rng) -> Case {
    let (mut kind, mut all) = (String::new(), vec![]);
    match rng.gen_range(0..10) {
        0..=4 => {
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
                let (bad, which) = (n > 6 && i + 1 == count, rng.gen::<bool>());
                let (a, x) = if n == 5 && which { ("infinity".into(), vec![0; 64]) } else { point1(rng, bad && which) };
                let (b, y) = if n == 5 && !which { ("infinity".into(), vec![0; 128]) } else { point2(rng, bad && !which) };
                kind += &format!("{a} and {b}; ");
                all.extend(x);
                all.extend(y);
            }
        }
    }
    spoil(rng, (kind, all))
}
