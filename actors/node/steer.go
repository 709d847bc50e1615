package node

import (
	"context"

	"github.com/troupe-chain/troupe/actors/link"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Mine makes n blocks more, whatever the mode, and returns the head then.
func (n *Node) Mine(ctx context.Context, blocks uint64) (primitives.Height, primitives.Hash, error) {
	a, err := askProducer[messages.MineBlocks, messages.BlocksMined](ctx, n, messages.MineBlocks{Blocks: blocks})
	return a.Height, a.Hash, err
}

// PatchState writes records into the state with the next block, which is made at once, and returns that. engine.ErrPatch where they would
// not fit; producer.ErrShared, ErrMany.
func (n *Node) PatchState(ctx context.Context, records []genesis.Record) (primitives.Height, primitives.Hash, error) {
	if err := n.engine.CheckPatch(records); err != nil {
		return 0, primitives.Hash{}, err
	}
	a, err := askProducer[messages.PatchState, messages.StatePatched](ctx, n, messages.PatchState{Records: records})
	return a.Height, a.Hash, err
}

// FastForward goes so many heights on, passing over what may be passed over, and returns the head then. producer.ErrShared, ErrForward,
// ErrMany.
func (n *Node) FastForward(ctx context.Context, heights uint64) (primitives.Height, primitives.Hash, error) {
	a, err := askProducer[messages.FastForward, messages.Forwarded](ctx, n, messages.FastForward{Heights: heights})
	return a.Height, a.Hash, err
}

// askProducer asks for blocks, and waits until they are there, the node halts or the context ends.
func askProducer[Q, A any](ctx context.Context, n *Node, question Q) (none A, err error) {
	if err := n.refusal(); err != nil {
		return none, err
	}
	r := link.NewRequest[Q, A](question)
	n.tell(n.producer, r)
	select {
	case a := <-r.Answer():
		if err := n.refusal(); a.Err != nil && err != nil {
			return none, err
		}
		return a.Value, a.Err
	case <-n.still:
		return none, n.refusal()
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
