package view

// MineError says why a node makes no blocks on request.
type MineError struct{ Reason string }

func (e *MineError) Error() string { return "no blocks on request: " + e.Reason }
