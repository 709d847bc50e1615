package congestion

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

var june86 = parameters.MustGet(parameters.June(86))

// parameters returns a copy of the parameters of version 86, which a test may change.
func control() *parameters.CongestionControl {
	c := june86.CongestionControl
	return &c
}

// TestMixRoundsAsInVectorA45: nearcore congestion_info.rs:533, 541, with all values. Rounding
// errors must be the same too.
func TestMixRoundsAsInVectorA45(t *testing.T) {
	t.Parallel()
	const top = math.MaxUint64
	tests := []struct {
		left, right uint64
		ratio       float64
		want        uint64
	}{
		{0, 1000, 0.5, 500}, {0, 0, 0.3, 0}, {1000, 1000, 0.1, 1000}, {50, 80, 0.33, 60},
		{top, top, 0.33, top}, {top, top, 0.63, top}, {top, top, 0.99, top},
		{top - 1, top, 0.25, top}, {top - 255, top, 0.25, top}, {top - 1023, top, 0.25, top},
		{top - 1024, top, 0.25, top - 2047}, {top - 1500, top, 0.25, top - 2047}, {top - 2047, top, 0.25, top - 2047},
		{top - 2048, top, 0.25, top - 2047}, {top - 2049, top, 0.25, top - 2047}, {top - 3000, top, 0.25, top - 2047},
		{top - 4000, top, 0.25, top - 4095},
	}
	for _, tt := range tests {
		if got := mix(tt.left, tt.right, tt.ratio); got != tt.want {
			t.Errorf("mix(%d, %d, %v) = %d, want %d", tt.left, tt.right, tt.ratio, got, tt.want)
		}
	}
}

// TestLevelWithMissedChunksMatchesVectorA46: nearcore congestion_info.rs:770.
func TestLevelWithMissedChunksMatchesVectorA46(t *testing.T) {
	t.Parallel()
	cfg := control()
	cfg.MaxCongestionMissedChunks = 10
	for _, tt := range []struct {
		buffered   primitives.Gas
		missed     uint64
		want, here float64
	}{
		{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 2, 0.2, 0.2}, {0, 3, 0.3, 0.3}, {0, 10, 1, 1}, {0, 20, 1, 1},
		{cfg.MaxCongestionOutgoingGas / 2, 0, 0.5, 0}, {cfg.MaxCongestionOutgoingGas / 2, 5, 0.5, 0.5},
		{cfg.MaxCongestionOutgoingGas / 2, 6, 0.6, 0.6}, {cfg.MaxCongestionOutgoingGas / 2, 20, 1, 1},
	} {
		c := Control{cfg, primitives.CongestionInfo{BufferedReceiptsGas: primitives.Yocto(uint64(tt.buffered))}, tt.missed}
		if got := c.Level(); got != tt.want {
			t.Errorf("level with %d buffered, %d missed = %v, want %v", tt.buffered, tt.missed, got, tt.want)
		}
		if got := c.MissedLevel(); got != tt.here {
			t.Errorf("level of %d missed = %v, want %v", tt.missed, got, tt.here)
		}
	}
}

func TestFractionIsCappedAtOne(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value primitives.Balance
		limit uint64
		want  float64
	}{
		{primitives.Yocto(0), 10, 0}, {primitives.Yocto(5), 10, 0.5}, {primitives.Yocto(10), 10, 1}, {primitives.Yocto(0), 1, 0},
		{primitives.Yocto(0), math.MaxUint64, 0}, {primitives.Yocto(100), 200, 0.5}, {primitives.Yocto(11), 10, 1},
		{primitives.Yocto(math.MaxUint64 / 2), math.MaxUint64, 0.5}, {primitives.MaxBalance, 10, 1}, {primitives.MaxBalance, math.MaxUint64, 1},
		{primitives.Balance{Hi: 1}, math.MaxUint64, 1},
	} {
		if got := fraction(tt.value, tt.limit); got != tt.want {
			t.Errorf("fraction(%v, %d) = %v, want %v", tt.value, tt.limit, got, tt.want)
		}
	}
}

// TestGasLimitsFallWithCongestion follows nearcore's tests of memory, incoming and outgoing
// congestion (congestion_info.rs:590-740): levels 1, 0.8 (the threshold itself) and 0.1.
func TestGasLimitsFallWithCongestion(t *testing.T) {
	t.Parallel()
	cfg := control()
	kinds := []struct {
		name     string
		full     uint64
		set      func(*primitives.CongestionInfo, uint64)
		incoming bool // restricts the own transactions too
	}{
		{"memory", cfg.MaxCongestionMemoryConsumption, func(i *primitives.CongestionInfo, v uint64) { i.ReceiptBytes = v }, false},
		{"incoming", uint64(cfg.MaxCongestionIncomingGas), func(i *primitives.CongestionInfo, v uint64) { i.DelayedReceiptsGas = primitives.Yocto(v) }, true},
		{"outgoing", uint64(cfg.MaxCongestionOutgoingGas), func(i *primitives.CongestionInfo, v uint64) { i.BufferedReceiptsGas = primitives.Yocto(v) }, false},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for _, tt := range []struct {
				value          uint64
				level          float64
				refused        bool
				other, allowed primitives.Gas
				tx             primitives.Gas // if incoming
			}{
				{0, 0, false, 300e15, 300e15, 500e12},
				{k.full / 10, 0.1, false, 270_100e12, 270_100e12, 452e12},
				{k.full / 5 * 4, 0.8, true, 60_799_999_999_999_984, 60_799_999_999_999_984, 116e12},
				{k.full, 1, true, 0, 1e15, 20e12},
			} {
				c := Control{Config: cfg, Info: primitives.CongestionInfo{AllowedShard: 7}}
				k.set(&c.Info, tt.value)
				if got := c.Level(); got != tt.level {
					t.Errorf("%s %d: level %v, want %v", k.name, tt.value, got, tt.level)
				}
				if got := c.RefusesTransactions(); got.Refused != tt.refused || got.Stuck || got.Refused && got.Level != tt.level {
					t.Errorf("%s %d: refusal %+v, want refused %v at %v", k.name, tt.value, got, tt.refused, tt.level)
				}
				if other, allowed := c.OutgoingGasLimit(1), c.OutgoingGasLimit(7); other != tt.other || allowed != tt.allowed {
					t.Errorf("%s %d: gas limit %d, for the allowed shard %d, want %d, %d", k.name, tt.value, other, allowed, tt.other, tt.allowed)
				}
				want := tt.tx
				if !k.incoming {
					want = 500e12
				}
				if got := c.ProcessTxLimit(); got != want {
					t.Errorf("%s %d: transaction gas %d, want %d", k.name, tt.value, got, want)
				}
			}
		})
	}
}

func TestCongestedShardRefusesTransactions(t *testing.T) {
	t.Parallel()
	cfg := control()
	full := primitives.CongestionInfo{ReceiptBytes: cfg.MaxCongestionMemoryConsumption}
	for _, tt := range []struct {
		info   primitives.CongestionInfo
		missed uint64
		want   Refusal
	}{
		{primitives.CongestionInfo{}, 99, Refusal{}},
		{primitives.CongestionInfo{}, 100, Refusal{Refused: true, Stuck: true, Missed: 100}},
		{full, 1, Refusal{Refused: true, Level: 1}},
		{full, 124, Refusal{Refused: true, Level: 1}},
		{full, 125, Refusal{Refused: true, Stuck: true, Missed: 125}}, // of equals, missing chunks come first
	} {
		if got := (&Control{cfg, tt.info, tt.missed}).RefusesTransactions(); got != tt.want {
			t.Errorf("%+v, %d missed: %+v, want %+v", tt.info, tt.missed, got, tt.want)
		}
	}
}

func TestAllowedShardRotatesWithHeight(t *testing.T) {
	t.Parallel()
	shards := []primitives.ShardID{9, 3, 5}
	for _, tt := range []struct {
		height primitives.Height
		own    primitives.ShardIndex
		want   primitives.ShardID
	}{{0, 0, 9}, {0, 1, 3}, {1, 1, 5}, {2, 1, 9}, {math.MaxUint64, 0, 9}, {math.MaxUint64, 2, 3}} {
		if got := AllowedShard(tt.height, tt.own, shards); got != tt.want {
			t.Errorf("AllowedShard(%d, %d) = %d, want %d", tt.height, tt.own, got, tt.want)
		}
	}
}

// slowFraction and slowMix compute the definitions in exact arithmetic and round where a double rounds: to
// nearest, ties to even.
func slowFraction(value, limit uint64) float64 {
	if value >= limit {
		return 1
	}
	return toDouble(new(big.Rat).Quo(round(asInt(value)), round(asInt(limit))))
}

func toDouble(x *big.Rat) float64 {
	f, _ := x.Float64()
	return f
}

func round(x *big.Rat) *big.Rat { return asRat(toDouble(x)) }

func asInt(v uint64) *big.Rat { return new(big.Rat).SetUint64(v) }

func asRat(f float64) *big.Rat { return new(big.Rat).SetFloat64(f) }

func slowMix(left, right uint64, ratio float64) uint64 {
	l, r, t := asInt(left), asInt(right), asRat(ratio)
	lp := round(new(big.Rat).Mul(round(l), round(new(big.Rat).Sub(big.NewRat(1, 1), t))))
	rp := round(new(big.Rat).Mul(round(r), t))
	sum := round(new(big.Rat).Add(lp, rp))
	// Half away from zero: floor(x + 1/2) exactly, for x not negative.
	sum.Add(sum, big.NewRat(1, 2))
	v := new(big.Int).Quo(sum.Num(), sum.Denom())
	if !v.IsUint64() {
		return math.MaxUint64
	}
	return v.Uint64()
}

func TestRoundingMatchesExactArithmetic(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() uint64 { return rng.Uint64() >> rng.IntN(64) }
	for range 20_000 {
		value, limit := number(), max(number(), 1)
		level := fraction(primitives.Yocto(value), limit)
		if want := slowFraction(value, limit); level != want {
			t.Fatalf("fraction(%d, %d) = %v, want %v", value, limit, level, want)
		}
		left, right := number(), number()
		if got, want := mix(left, right, level), slowMix(left, right, level); got != want {
			t.Fatalf("mix(%d, %d, %v) = %d, want %d", left, right, level, got, want)
		}
	}
}

func TestAccountingErrorLeavesInfoUnchanged(t *testing.T) {
	t.Parallel()
	var info primitives.CongestionInfo
	a := Account{&info}
	for _, err := range []error{
		a.AddBytes(10), a.RemoveBytes(3), a.AddDelayedGas(math.MaxUint64), a.AddDelayedGas(2), a.RemoveDelayedGas(1),
		a.AddBufferedGas(5), a.RemoveBufferedGas(5),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := primitives.CongestionInfo{DelayedReceiptsGas: primitives.Balance{Hi: 1, Lo: 0}, ReceiptBytes: 7}
	if info != want {
		t.Errorf("info = %+v, want %+v", info, want)
	}
	info.BufferedReceiptsGas = primitives.MaxBalance
	before := info
	for _, err := range []error{
		a.AddBytes(math.MaxUint64), a.RemoveBytes(8), a.AddBufferedGas(1),
		Account{&primitives.CongestionInfo{}}.RemoveDelayedGas(1), Account{&primitives.CongestionInfo{}}.RemoveBufferedGas(1),
	} {
		if !errors.Is(err, ErrOverflow) {
			t.Errorf("err = %v, want %v", err, ErrOverflow)
		}
	}
	if info != before {
		t.Errorf("a failed change gives %+v, want %+v", info, before)
	}
}

func TestForwardFollowsGasAndSizeLimits(t *testing.T) {
	t.Parallel()
	a := NewAdmission(june86)
	if want := (Admission{MaxGas: 1e15, MaxSize: 4_194_304}); a != want {
		t.Fatalf("NewAdmission = %+v, want %+v", a, want)
	}
	for _, tt := range []struct {
		name  string
		limit Limit
		gas   primitives.Gas
		size  uint64
		want  bool
		left  Limit
	}{
		{"fits", Limit{100, 100}, 100, 100, true, Limit{}},
		{"too much gas", Limit{99, 100}, 100, 100, false, Limit{99, 100}},
		{"too large", Limit{100, 99}, 100, 100, false, Limit{100, 99}},
		{"no grant", Limit{Unlimited, 0}, 0, 1, false, Limit{Unlimited, 0}},
		{"gas clamped", Limit{1e15, 10}, 3e15, 10, true, Limit{}},
		{"gas clamped, more left", Limit{4e15, 10}, 3e15, 10, true, Limit{1e15, 0}},
		{"size clamped", Limit{10, 4_194_304}, 10, 5_000_000, true, Limit{}},
		{"size clamped, too little", Limit{10, 4_194_303}, 10, 5_000_000, false, Limit{10, 4_194_303}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.limit
			if got := l.Forward(a, tt.gas, tt.size); got != tt.want || l != tt.left {
				t.Errorf("%v, left %+v, want %v, %+v", got, l, tt.want, tt.left)
			}
		})
	}
}

func BenchmarkLevel(b *testing.B) {
	c := Control{Config: control(), Info: primitives.CongestionInfo{DelayedReceiptsGas: primitives.Yocto(12345678901234567)}}
	b.ReportAllocs()
	for b.Loop() {
		_ = c.OutgoingGasLimit(3)
	}
}
