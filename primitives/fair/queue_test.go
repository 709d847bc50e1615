package fair

import (
	"fmt"
	"slices"
	"testing"
)

func client(address byte, conn uint64) Client {
	return Client{Address: [16]byte{15: address}, Conn: conn}
}

// TestAddressesShareTurnsEqually: sixteen connections of one address whose turns cost 100 get no
// more turns than one connection of another address with the same cost.
func TestAddressesShareTurnsEqually(t *testing.T) {
	t.Parallel()
	q := Queue[string]{Limit: 100}
	for i := range 16 {
		q.Push(client(1, uint64(i)), "many")
	}
	q.Charge(client(1, 0), 100) // one of them runs
	q.Push(client(2, 0), "one")
	var got []string
	for range 6 {
		item, c, ok := q.Pop()
		if !ok {
			t.Fatal("the queue is empty")
		}
		got = append(got, item)
		q.Charge(c, 100)
		q.Push(c, item)
	}
	if want := []string{"one", "many", "one", "many", "one", "many"}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
}

// TestNewConnectionPrecedesServedOnes: within an address, a new connection precedes those that have
// had their turns.
func TestNewConnectionPrecedesServedOnes(t *testing.T) {
	t.Parallel()
	q := Queue[uint64]{Limit: 100}
	for round := range 3 {
		for i := range uint64(4) {
			q.Push(client(1, i), i)
		}
		for range 4 {
			i, c, _ := q.Pop()
			q.Charge(c, 50)
			if round == 2 && i == 0 { // the first of the third round was served: add the new one
				q.Push(client(1, 9), 9)
				if got, _, _ := q.Pop(); got != 9 && got != 1 {
					t.Errorf("connection %d is served, want 9 or 1", got)
				}
			}
		}
	}
}

// TestIdleClientGetsNoCredit: a client that was idle for a long time has no credit from it.
func TestIdleClientGetsNoCredit(t *testing.T) {
	t.Parallel()
	q := Queue[int]{Limit: 100}
	for i := range 50 {
		q.Push(client(1, 0), i)
	}
	for range 20 {
		_, c, _ := q.Pop()
		q.Charge(c, 1000)
	}
	for i := range 20 {
		q.Push(client(2, 0), 100+i)
	}
	late, turns := 0, 0
	for range 10 {
		item, c, _ := q.Pop()
		q.Charge(c, 1000)
		if turns++; item >= 100 {
			late++
		}
	}
	if late < 4 || late > 6 {
		t.Errorf("of %d turns the newcomer had %d, want half", turns, late)
	}
}

func TestQueueAndMemoryAreBounded(t *testing.T) {
	t.Parallel()
	q := Queue[int]{Limit: 2}
	for i, want := range []bool{true, true, false} {
		if got := q.Push(client(byte(i), 0), i); got != want {
			t.Errorf("Push %d = %v, want %v", i, got, want)
		}
	}
	q = Queue[int]{Limit: 10}
	for i := range 5 * Remembered {
		c := Client{Conn: uint64(i)}
		copy(c.Address[:], fmt.Sprintf("%016d", i))
		q.Push(c, i)
		q.Pop()
		q.Charge(c, 10)
	}
	if n := len(q.all.flows); n > Remembered+1 {
		t.Errorf("%d addresses are remembered, want at most %d", n, Remembered+1)
	}
	if _, _, ok := q.Pop(); ok || q.Len() != 0 {
		t.Errorf("Pop of an empty queue, Len %d", q.Len())
	}
}
