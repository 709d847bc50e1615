// Package capture records the traffic between nodes and formats it as text.
//
//	in      frames: those of a node that records its own connections (Recorder.Tap), or of
//	        connections through a Proxy; recordings, also neard's
//	out     recordings: one JSON object a line, compressed if the file name ends in .gz; a line of
//	        text for each message; items that validators signed twice (Search)
//	state   Recorder: the open connections, with the peers at both ends once a handshake names
//	        them. Proxy: its connections
//	units   seconds since the recording began; bytes of frames without their length
//	bound   the recording's size limit; maxSigned items of a Search; frames of maxKept bytes, of
//	        longer ones only the length is recorded; MaxConns connections of a Proxy; lines of
//	        maxLine bytes
//	errors  *LineError: an invalid line of a recording. Errors of a Proxy are notes in the recording
//	source  our own; the format is that of data/neard/net
//
// A Proxy forwards the bytes unchanged and records a copy. NEAR's protocol is not encrypted, so a
// recording contains all messages. It contains no secret keys.
package capture
