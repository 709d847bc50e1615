package refmodel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/big"
)

// Producers is a second model of how chunk producers are chosen (EarlyKickout, NEP-652). It is
// written from the specification and shares no code with package chain. It keeps all blocks, counts
// from each block to the next, and uses unbounded integers. The validators of an epoch are an
// input.
type Producers struct {
	// Grace (in heights), Missed (in chunks) and Percent are the thresholds of the blacklist. Real
	// chains use 1000, 100 and 80.
	Grace, Missed, Percent int64
	Epochs                 map[[32]byte]*ProducersEpoch
	blocks                 map[[32]byte]*producersBlock
}

// ProducersEpoch is an epoch. Validators are represented by numbers.
type ProducersEpoch struct {
	Version int
	Seed    [32]byte
	Shards  []uint64   // shard ids, by shard index
	Seats   [][]int    // Seats[s] lists the chunk producers of shard index s, with repetitions
	Stakes  []*big.Int // stake of each validator
}

// ProducersBlock is the part of a block that the model uses. A zero Prev means that the block is
// the genesis. A zero Final means that no block is final.
type ProducersBlock struct {
	Hash, Prev, Final, Epoch [32]byte
	Height                   int64
	Mask                     []bool // Mask[s]: the block has a new chunk of shard index s
}

// Turns counts the chunks that a validator has produced (Made) and was assigned to produce (Due).
type Turns struct{ Made, Due int64 }

type producersBlock struct {
	ProducersBlock
	first  int64     // height of the first block of the block's epoch
	counts [][]Turns // counts[s][v]: chunks of shard index s and validator v from first to this block
}

// Add adds a block. The caller must have added its parent and its epoch before.
func (m *Producers) Add(b ProducersBlock) {
	if m.blocks == nil {
		m.blocks = map[[32]byte]*producersBlock{}
	}
	x := &producersBlock{ProducersBlock: b}
	e := m.Epochs[b.Epoch]
	parent := m.blocks[b.Prev]
	begins := parent == nil || parent.Prev == [32]byte{} || parent.Epoch != b.Epoch
	for s := range e.Shards {
		line := make([]Turns, len(e.Stakes))
		if !begins {
			copy(line, parent.counts[s])
		}
		if parent != nil {
			who := m.Producer(b.Prev, b.Epoch, s)
			line[who].Due++
			if b.Mask[s] {
				line[who].Made++
			}
		}
		x.counts = append(x.counts, line)
	}
	switch {
	case parent == nil:
	case begins:
		x.first = b.Height
	default:
		x.first = parent.first
	}
	m.blocks[b.Hash] = x
}

// Counts returns the turns in a block's epoch up to that block, by shard and validator.
func (m *Producers) Counts(hash [32]byte) [][]Turns { return m.blocks[hash].counts }

// Producer returns the producer of a shard's chunk in a child of parent. epoch is the child's
// epoch.
func (m *Producers) Producer(parent, epoch [32]byte, shard int) int {
	p := m.blocks[parent]
	if m.Epochs[epoch].Version >= 87 {
		if a := m.blocks[p.Prev]; a != nil && a.Epoch == epoch {
			return m.Row(a.Hash, shard)
		}
	}
	return m.draw(epoch, shard, p.Height+1, nil)
}

// Row returns the producer of a shard's chunk two blocks after the block anchor.
func (m *Producers) Row(anchor [32]byte, shard int) int {
	a := m.blocks[anchor]
	return m.draw(a.Epoch, shard, a.Height+2, m.Listed(anchor, shard))
}

// Listed returns the validators that are blacklisted for a shard's chunk two blocks after the block
// anchor. nil: none.
func (m *Producers) Listed(anchor [32]byte, shard int) map[int]bool {
	a := m.blocks[anchor]
	f := m.blocks[a.Final]
	if f == nil || f.Epoch != a.Epoch || f.Height-f.first < m.Grace {
		return nil
	}
	return m.ListedBy(m.Epochs[a.Epoch].Seats[shard], f.counts[shard])
}

// ListedBy returns the blacklisted validators among the seats, according to their turns.
func (m *Producers) ListedBy(seats []int, turns []Turns) map[int]bool {
	listed, everybody := map[int]bool{}, true
	for _, v := range seats {
		t := turns[v]
		missed, made, due := big.NewInt(t.Due-t.Made), big.NewInt(t.Made), big.NewInt(t.Due)
		bad := missed.Cmp(big.NewInt(m.Missed)) >= 0 &&
			made.Mul(made, big.NewInt(100)).Cmp(due.Mul(due, big.NewInt(m.Percent))) < 0
		if bad {
			listed[v] = true
		} else {
			everybody = false
		}
	}
	if !everybody {
		return listed
	}
	kept := -1
	for v := range listed {
		if kept < 0 || m.preferred(turns, v, kept) {
			kept = v
		}
	}
	delete(listed, kept)
	return listed
}

// preferred returns whether a stays rather than b. One validator must stay if all would be
// blacklisted.
func (m *Producers) preferred(turns []Turns, a, b int) bool {
	x := new(big.Rat).SetFrac64(turns[a].Made, turns[a].Due)
	y := new(big.Rat).SetFrac64(turns[b].Made, turns[b].Due)
	if c := x.Cmp(y); c != 0 {
		return c > 0
	}
	if turns[a].Due != turns[b].Due {
		return turns[a].Due < turns[b].Due
	}
	return a < b
}

// draw draws one of the seats that are not listed, with probability proportional to stake.
func (m *Producers) draw(epoch [32]byte, shard int, height int64, listed map[int]bool) int {
	e := m.Epochs[epoch]
	var seats []int
	for _, v := range e.Seats[shard] {
		if !listed[v] {
			seats = append(seats, v)
		}
	}
	var seed bytes.Buffer
	seed.Write(e.Seed[:])
	_ = binary.Write(&seed, binary.LittleEndian, height)
	_ = binary.Write(&seed, binary.LittleEndian, e.Shards[shard])
	hash := sha256.Sum256(seed.Bytes())
	return seats[aliased(e.Stakes, seats, hash)]
}

// aliased draws an index of seats by the alias method. Each seat has a column as high as the sum of
// all stakes. If a seat's stake does not fill its column, the rest of the column goes to a seat
// whose stake exceeds its column.
func aliased(stakes []*big.Int, seats []int, hash [32]byte) int {
	n, sum := len(seats), new(big.Int)
	for _, v := range seats {
		sum.Add(sum, stakes[v])
	}
	own, other := make([]*big.Int, n), make([]int, n)
	var low, high []int
	place := func(i int) {
		if own[i].Cmp(sum) < 0 {
			low = append(low, i)
		} else {
			high = append(high, i)
		}
	}
	for i, v := range seats {
		own[i] = new(big.Int).Mul(stakes[v], big.NewInt(int64(n)))
		place(i)
	}
	for len(low) > 0 && len(high) > 0 {
		l, h := low[len(low)-1], high[len(high)-1]
		low, high = low[:len(low)-1], high[:len(high)-1]
		other[l] = h
		gap := new(big.Int).Sub(sum, own[l])
		own[h] = new(big.Int).Sub(own[h], gap)
		place(h)
	}
	for _, i := range append(low, high...) {
		own[i] = sum
	}
	column := int(binary.LittleEndian.Uint64(hash[:8]) % uint64(n))
	var big16 [16]byte
	for i := range big16 {
		big16[15-i] = hash[8+i]
	}
	at := new(big.Int).Mod(new(big.Int).SetBytes(big16[:]), sum)
	if at.Cmp(own[column]) < 0 {
		return column
	}
	return other[column]
}
