// Package capture records traffic between nodes and decodes it to text.
//
//	in      frames: of a node that taps its own connections (Recorder.Tap), or of connections that
//	        go through a Proxy; recordings, of neard's, too
//	out     recordings: a JSON object a line, packed where the file's name ends in .gz; a line of
//	        words for each message; what validators signed twice (Search)
//	state   of a Recorder the open connections, with the peers at their ends as far as handshakes
//	        named them; of a Proxy its connections
//	units   seconds since the recording began; bytes of frames without their length
//	bound   a recording of so many bytes as its Recorder is given; maxSigned things of a Search;
//	        frames of maxKept bytes, longer ones are noted; MaxConns connections of a Proxy; a
//	        line of maxLine bytes read
//	errors  *LineError: a recording's line that is none; a Proxy's own are notes in the recording
//	source  our own; the lines are those of data/neard/net
//
// A Proxy changes nothing: bytes go on as they come, and what is recorded is read beside that. What
// is said is not encrypted, and so a recording holds it all, but no secret keys.
package capture
