package tool

import "errors"

// Attach attaches an image or a sound to the result: the media type is image/... or
// audio/.... A model sees an image if it can. The error has the reason for a refusal.
func (c *Call) Attach(mimeType string, data []byte) error {
	return attached(attach(mimeType, data, ""))
}

// AttachFile attaches a file to the result. The model reads its text if it is UTF-8 and
// its media type is text/..., JSON, XML or empty. The error has the reason for a refusal.
func (c *Call) AttachFile(uri, mimeType string, data []byte) error {
	return attached(attach(mimeType, data, uri))
}

// AttachLink attaches a link that the client may fetch itself. The description may be
// empty. The error has the reason for a refusal.
func (c *Call) AttachLink(uri, name, description string) error {
	return attached(link(uri, name, description))
}

func attached(refusal string) error {
	if refusal == "" {
		return nil
	}
	return errors.New("it is not attached: " + refusal)
}
