// alt_bn128 by zeropool-bn: little-endian numbers, (0, 0) for infinity, errors that print what is wrong.

use bn::{AffineG1, AffineG2, Fq, Fq2, Fr, Group, G1, G2};

type Answer<T> = Result<T, String>;

fn wrong<T>(what: &str, raw: &[u8]) -> Answer<T> {
    Err(format!("invalid {what}: {raw:X?}"))
}

fn items(data: &[u8], size: usize) -> Answer<std::slice::ChunksExact<'_, u8>> {
    if data.len() % size != 0 {
        return Err(format!(
            "slice of size {} cannot be precisely split into chunks of size {size}",
            data.len()
        ));
    }
    Ok(data.chunks_exact(size))
}

fn number(raw: &[u8]) -> bn::arith::U256 {
    let half = |b: &[u8]| u128::from_le_bytes(b.try_into().unwrap());
    bn::arith::U256([half(&raw[..16]), half(&raw[16..])])
}

fn fq(raw: &[u8]) -> Answer<Fq> {
    Fq::from_u256(number(raw)).or_else(|_| wrong("fq", raw))
}

fn fq2(raw: &[u8]) -> Answer<Fq2> {
    Ok(Fq2::new(fq(&raw[..32])?, fq(&raw[32..])?))
}

fn fr(raw: &[u8]) -> Answer<Fr> {
    Fr::new(number(raw)).map_or_else(|| wrong("fr", raw), Ok)
}

fn g1(raw: &[u8]) -> Answer<G1> {
    let (x, y) = (fq(&raw[..32])?, fq(&raw[32..])?);
    if x.is_zero() && y.is_zero() {
        return Ok(G1::zero());
    }
    AffineG1::new(x, y).map(G1::from).or_else(|_| wrong("g1", raw))
}

fn g2(raw: &[u8]) -> Answer<G2> {
    let (x, y) = (fq2(&raw[..64])?, fq2(&raw[64..])?);
    if x.is_zero() && y.is_zero() {
        return Ok(G2::zero());
    }
    AffineG2::new(x, y).map(G2::from).or_else(|_| wrong("g2", raw))
}

fn encode(p: G1) -> Vec<u8> {
    let (x, y) = match AffineG1::from_jacobian(p) {
        Some(p) => (p.x(), p.y()),
        None => (Fq::zero(), Fq::zero()),
    };
    [x, y].iter().flat_map(|c| c.into_u256().0).flat_map(u128::to_le_bytes).collect()
}

pub fn multiexp(data: &[u8]) -> Answer<Vec<u8>> {
    let mut list = vec![];
    for item in items(data, 96)? {
        list.push((g1(&item[..64])?, fr(&item[64..])?));
    }
    Ok(encode(G1::multiexp(&list)))
}

pub fn sum(data: &[u8]) -> Answer<Vec<u8>> {
    let mut total = G1::zero();
    for item in items(data, 65)? {
        let negative = match item[0] {
            0 => false,
            1 => true,
            _ => return wrong("bool", &item[..1]),
        };
        let p = g1(&item[1..])?;
        total = if negative { total - p } else { total + p };
    }
    Ok(encode(total))
}

pub fn pairing(data: &[u8]) -> Answer<Vec<u8>> {
    let mut list = vec![];
    for item in items(data, 192)? {
        list.push((g1(&item[..64])?, g2(&item[64..])?));
    }
    Ok(vec![(bn::pairing_batch(&list) == bn::Gt::one()) as u8])
}
