package daemon

import "context"

// Hooks let tests observe and change a node's files and its stop. A nil field does nothing.
type Hooks struct {
	// syncFolder replaces the function of that name while a synced state is installed.
	syncFolder func(dir string) error
	// RestoreSnapshot calls restoring between its steps. If restoring returns an error,
	// RestoreSnapshot fails with that error.
	restoring func(step string) error
	// moving is called between the steps in which a synced state replaces the chain, and in which a
	// chain is moved out of a mount point. An error ends the replacement.
	moving func(step string) error
	// lastAdvance replaces the last advance of the flat head, when the node stops.
	lastAdvance func(context.Context) error
}

// hooks are set by tests of this package, which do not run in parallel.
var hooks Hooks

// syncNames makes the names in a folder durable.
func syncNames(dir string) error {
	if hooks.syncFolder != nil {
		return hooks.syncFolder(dir)
	}
	return syncFolder(dir)
}

// restoring announces a step of RestoreSnapshot.
func restoring(step string) error {
	if hooks.restoring != nil {
		return hooks.restoring(step)
	}
	return nil
}

// moving announces a step of a replacement of the chain.
func moving(step string) error {
	if hooks.moving != nil {
		return hooks.moving(step)
	}
	return nil
}

// lastAdvance advances the flat head when the node stops.
func (h *Daemon) lastAdvance(ctx context.Context) error {
	if hooks.lastAdvance != nil {
		return hooks.lastAdvance(ctx)
	}
	return h.advanceFlatHead(ctx)
}
