// Opens the moment of a finding in Perfetto: the cut-out of the trace is handed from this page to that one, as
// https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui describes. Nothing is uploaded.

const PING_MS = 50;
const PATIENCE_MS = 60000;

function unpack(text) {
  const binary = atob(text);
  const buffer = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) buffer[i] = binary.charCodeAt(i);
  return buffer.buffer;
}

function openInPerfetto(picture, title, button) {
  const origin = new URL(settings.viewer).origin;
  const viewer = window.open(settings.viewer);
  if (!viewer) {
    button.textContent = "The browser blocked the window";
    return;
  }
  const started = Date.now();
  const timer = setInterval(() => {
    if (Date.now() - started > PATIENCE_MS) stop();
    else viewer.postMessage("PING", origin);
  }, PING_MS);
  const answer = (event) => {
    if (event.data !== "PONG" || event.source !== viewer) return;
    stop();
    const buffer = unpack(picture.cutout);
    viewer.postMessage({ perfetto: { buffer, title, fileName: "moment.json.gz" } }, origin, [buffer]);
  };
  const stop = () => {
    clearInterval(timer);
    window.removeEventListener("message", answer);
  };
  window.addEventListener("message", answer);
}
