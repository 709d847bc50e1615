package anchor

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func entry(signer, parent, kind int, height primitives.Height, size int) Entry {
	return Entry{Parent: primitives.Hash{byte(parent)}, Height: height, Signer: primitives.AccountID(fmt.Sprint("node", signer)), Kind: kind, Size: size}
}

// TestQueueReturnsMessagesOfABlockOnce: Take returns messages in the order of Put, and only once.
func TestQueueReturnsMessagesOfABlockOnce(t *testing.T) {
	t.Parallel()
	q := NewQueue[int]()
	c := q.Counters
	for i := range 6 {
		if err := q.Put(entry(i%2, i%3, i, 7, 100), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Put(entry(0, 0, 0, 7, 100), 9); !errors.Is(err, ErrEarly) {
		t.Errorf("the same message again: %v", err)
	}
	if err := q.Put(entry(1, 0, 0, 7, 100), 6); err != nil {
		t.Errorf("the message of another signer: %v", err)
	}
	if got := q.Take(primitives.Hash{0}); !slices.Equal(got, []int{0, 3, 6}) {
		t.Errorf("of block 0: %v", got)
	}
	if got := q.Take(primitives.Hash{0}); len(got) > 0 {
		t.Errorf("of block 0 again: %v", got)
	}
	if n, bytes := q.Len(); n != 4 || bytes != 4*(100+messageBytes) || c.Waiting.Load() != 4 || c.WaitingBytes.Load() != int64(bytes) {
		t.Errorf("%d messages of %d bytes wait, counted %d", n, bytes, c.Waiting.Load())
	}
	if err := q.Put(entry(0, 5, 1, 9, 1), 7); err != nil {
		t.Fatal(err)
	}
	if q.DropTo(7); !slices.Equal(q.Take(primitives.Hash{5}), []int{7}) {
		t.Error("the message above the final block is gone")
	}
	if n, bytes := q.Len(); n != 0 || bytes != 0 || c.Expired.Load() != 4 || c.Queued.Load() != 8 || c.Taken.Load() != 4 {
		t.Errorf("%d messages of %d bytes are left; %d expired, %d queued, %d taken", n, bytes, c.Expired.Load(), c.Queued.Load(), c.Taken.Load())
	}
}

// TestQueueBoundsEachSigner: whatever signers send, the bounds hold, and the messages of a signer
// with few messages are not evicted.
func TestQueueBoundsEachSigner(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many": 1, "large": 2 << 20, "short": 40 << 10} {
		t.Run(name, func(t *testing.T) {
			q := NewQueue[int]()
			c := q.Counters
			if err := q.Put(entry(0, 1, 1, 7, 100), -1); err != nil {
				t.Fatal(err)
			}
			for i := range 5 * MaxQueued { // half of them by one signer
				if err := q.Put(entry(1+i%2*(i%7), 2, i, 7, size), i); err != nil && !errors.Is(err, ErrEarly) {
					t.Fatal(err)
				}
				n, bytes := q.Len()
				if n > MaxQueued || bytes > MaxQueuedBytes {
					t.Fatalf("%d messages of %d bytes wait", n, bytes)
				}
				if i%500 > 0 {
					continue
				}
				counts, sizes := map[primitives.AccountID]int{}, map[primitives.AccountID]int{}
				for _, x := range q.waiting {
					counts[x.Signer]++
					sizes[x.Signer] += x.Size
				}
				for a := range counts {
					if counts[a] > MaxQueued/share || sizes[a] > MaxQueuedBytes/share {
						t.Fatalf("%d messages of %d bytes are of %s", counts[a], sizes[a], a)
					}
				}
			}
			if c.Evicted.Load() == 0 || c.Refused.Load() == 0 {
				t.Errorf("%d evicted, %d refused", c.Evicted.Load(), c.Refused.Load())
			}
			if got := q.Take(primitives.Hash{1}); !slices.Equal(got, []int{-1}) {
				t.Error("the message of the quiet signer is gone")
			}
		})
	}
	if err := NewQueue[int]().Put(entry(1, 1, 1, 1, MaxQueuedBytes/share), 1); !errors.Is(err, ErrEarly) {
		t.Errorf("a message beyond the share: %v", err)
	}
}
