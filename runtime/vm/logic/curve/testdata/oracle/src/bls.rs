// BLS12-381 by blst: Ok(None) where the host function returns 1.

use blst::*;

type Answer = Result<Option<Vec<u8>>, String>;

fn length(data: &[u8], size: usize, name: &str) -> Result<(), String> {
    if data.len() % size == 0 {
        return Ok(());
    }
    Err(format!(
        "Incorrect input length for bls12381_{name}: {} is not divisible by {size}",
        data.len()
    ))
}

// A group of points: the sums, products and decompressions of E(Fp) and of E'(Fp2) differ in names and sizes only.
macro_rules! group {
    ($group:ident, $name:literal, $size:literal, $point:ident, $affine:ident, $deserialize:ident, $serialize:ident,
     $uncompress:ident, $from_affine:ident, $to_affine:ident, $negate:ident, $add:ident, $in_group:ident, $times:ident,
     $key:ident) => {
        pub mod $group {
            use super::*;

            fn read(raw: &[u8], fix: bool) -> Option<$point> {
                if raw[0] & 0x80 != 0 {
                    return None;
                }
                let (mut affine, mut point) = ($affine::default(), $point::default());
                match unsafe { $deserialize(&mut affine, raw.as_ptr()) } {
                    BLST_ERROR::BLST_SUCCESS => {}
                    BLST_ERROR::BLST_POINT_NOT_IN_GROUP if fix => {}
                    _ => return None,
                }
                unsafe { $from_affine(&mut point, &affine) };
                Some(point)
            }

            pub(super) fn write(point: &$point) -> Vec<u8> {
                let (mut affine, mut raw) = ($affine::default(), [0u8; $size]);
                unsafe {
                    $to_affine(&mut affine, point);
                    $serialize(raw.as_mut_ptr(), &affine);
                }
                raw.to_vec()
            }

            pub fn sum(data: &[u8], fix: bool) -> Answer {
                length(data, $size + 1, concat!($name, "_sum"))?;
                let mut total = $point::default();
                for item in data.chunks_exact($size + 1) {
                    let Some(mut p) = read(&item[1..], fix) else { return Ok(None) };
                    match item[0] {
                        0 => {}
                        1 => unsafe { $negate(&mut p, true) },
                        _ => return Ok(None),
                    }
                    unsafe { $add(&mut total, &total, &p) };
                }
                Ok(Some(write(&total)))
            }

            pub fn multiexp(data: &[u8], fix: bool) -> Answer {
                length(data, $size + 32, concat!($name, "_multiexp"))?;
                let mut total = $point::default();
                for item in data.chunks_exact($size + 32) {
                    let (raw, scalar) = item.split_at($size);
                    let Some(p) = read(raw, fix) else { return Ok(None) };
                    if !unsafe { $in_group(&p) } {
                        return Ok(None);
                    }
                    let mut product = $point::default();
                    unsafe {
                        $times(&mut product, &p, scalar.as_ptr(), 256);
                        $add(&mut total, &total, &product);
                    }
                }
                Ok(Some(write(&total)))
            }

            pub fn decompress(data: &[u8], fix: bool) -> Answer {
                length(data, $size / 2, concat!($name, "_decompress"))?;
                let mut out = vec![];
                for item in data.chunks_exact($size / 2) {
                    if item[0] & 0x80 == 0 {
                        return Ok(None);
                    }
                    if !fix {
                        let Ok(p) = min_pk::$key::uncompress(item) else { return Ok(None) };
                        out.extend(p.serialize());
                        continue;
                    }
                    let (mut affine, mut raw) = ($affine::default(), [0u8; $size]);
                    match unsafe { $uncompress(&mut affine, item.as_ptr()) } {
                        BLST_ERROR::BLST_SUCCESS | BLST_ERROR::BLST_POINT_NOT_IN_GROUP => {}
                        _ => return Ok(None),
                    }
                    unsafe { $serialize(raw.as_mut_ptr(), &affine) };
                    out.extend(raw);
                }
                Ok(Some(out))
            }
        }
    };
}

group!(
    p1, "p1", 96, blst_p1, blst_p1_affine, blst_p1_deserialize, blst_p1_affine_serialize, blst_p1_uncompress,
    blst_p1_from_affine, blst_p1_to_affine, blst_p1_cneg, blst_p1_add_or_double, blst_p1_in_g1, blst_p1_mult, PublicKey
);
group!(
    p2, "p2", 192, blst_p2, blst_p2_affine, blst_p2_deserialize, blst_p2_affine_serialize, blst_p2_uncompress,
    blst_p2_from_affine, blst_p2_to_affine, blst_p2_cneg, blst_p2_add_or_double, blst_p2_in_g2, blst_p2_mult, Signature
);

// A number that is not below the modulus does not come back as it was.
fn field(raw: &[u8]) -> Option<blst_fp> {
    let (mut x, mut back) = (blst_fp::default(), [0u8; 48]);
    unsafe {
        blst_fp_from_bendian(&mut x, raw.as_ptr());
        blst_bendian_from_fp(back.as_mut_ptr(), &x);
    }
    (back == raw[..48]).then_some(x)
}

pub fn map1(data: &[u8]) -> Answer {
    length(data, 48, "map_fp_to_g1")?;
    let mut out = vec![];
    for item in data.chunks_exact(48) {
        let Some(u) = field(item) else { return Ok(None) };
        let mut p = blst_p1::default();
        unsafe { blst_map_to_g1(&mut p, &u, std::ptr::null()) };
        out.extend(p1::write(&p));
    }
    Ok(Some(out))
}

pub fn map2(data: &[u8]) -> Answer {
    length(data, 96, "map_fp2_to_g2")?;
    let mut out = vec![];
    for item in data.chunks_exact(96) {
        let (Some(im), Some(re)) = (field(&item[..48]), field(&item[48..])) else { return Ok(None) };
        let mut p = blst_p2::default();
        unsafe { blst_map_to_g2(&mut p, &blst_fp2 { fp: [re, im] }, std::ptr::null()) };
        out.extend(p2::write(&p));
    }
    Ok(Some(out))
}

pub fn pairing(data: &[u8]) -> Result<Vec<u8>, String> {
    length(data, 288, "pairing_check")?;
    let mut product = blst_fp12::default(); // one
    let mut list = vec![];
    for item in data.chunks_exact(288) {
        let (raw1, raw2) = item.split_at(96);
        let (mut p, mut q) = (blst_p1_affine::default(), blst_p2_affine::default());
        if raw1[0] & 0x80 != 0
            || unsafe { blst_p1_deserialize(&mut p, raw1.as_ptr()) } != BLST_ERROR::BLST_SUCCESS
            || !unsafe { blst_p1_affine_in_g1(&p) }
            || raw2[0] & 0x80 != 0
            || unsafe { blst_p2_deserialize(&mut q, raw2.as_ptr()) } != BLST_ERROR::BLST_SUCCESS
            || !unsafe { blst_p2_affine_in_g2(&q) }
        {
            return Ok(vec![1]);
        }
        list.push((p, q));
    }
    for (p, q) in &list {
        product *= blst_fp12::miller_loop(q, p);
    }
    let one = unsafe { blst_fp12_is_one(&product.final_exp()) };
    Ok(vec![if one { 0 } else { 2 }])
}
