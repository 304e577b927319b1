// Draws examples/page.png: an invoice with a line that stands upside down.
//
//   node scripts/models/make-page.mjs
//
// Needs the fonts DejaVu Sans and DejaVu Serif (Debian: fonts-dejavu).
import { fileURLToPath } from "node:url";
import sharp from "sharp";

const [WIDTH, HEIGHT] = [736, 608];
const texts = [
  { x: 48, y: 84, size: 40, font: "DejaVu Serif", text: "Invoice 20231" },
  { x: 48, y: 140, size: 24, font: "DejaVu Sans", text: "Berlin, 14 March 2025" },
  { x: 48, y: 220, size: 26, font: "DejaVu Sans", text: "8 hours of tempo rubato" },
  { x: 560, y: 220, size: 26, font: "DejaVu Sans", text: "640.00" },
  { x: 48, y: 276, size: 26, font: "DejaVu Sans", text: "1 metronome, mahogany" },
  { x: 560, y: 276, size: 26, font: "DejaVu Sans", text: "99.50" },
  { x: 48, y: 332, size: 26, font: "DejaVu Sans", text: "Sheet music" },
  { x: 560, y: 332, size: 26, font: "DejaVu Sans", text: "12.00" },
  { x: 48, y: 412, size: 32, font: "DejaVu Serif", text: "Total" },
  { x: 560, y: 412, size: 32, font: "DejaVu Serif", text: "751.50" },
  { x: 48, y: 480, size: 24, font: "DejaVu Sans", text: "Payment within 30 days" },
];
const turned = { x: 380, y: 536, size: 26, font: "DejaVu Sans", text: "Please turn over" };

const line = ({ x, y, size, font, text }) =>
  `<text x="${x}" y="${y}" font-family="${font}" font-size="${size}" fill="#1c1c28">${text}</text>`;
const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}">
<rect width="100%" height="100%" fill="#fbfaf5"/>${texts.map(line).join("")}
<g transform="rotate(180 ${turned.x + 110} ${turned.y - 9})">${line(turned)}</g></svg>`;
const out = fileURLToPath(new URL("../../examples/page.png", import.meta.url));
await sharp(Buffer.from(svg)).png({ palette: true, colours: 16, compressionLevel: 9 }).toFile(out);
console.log(out);
