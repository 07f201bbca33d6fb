// Opens a report in headless Chromium as different readers would and prints as JSON what they get to see.
// node look.cjs PLAYWRIGHT CHROMIUM REPORT.html [DIRECTORY for screenshots]
const [playwright, executablePath, report, pictures] = process.argv.slice(2);
const { chromium } = require(playwright);

const readers = [
  { name: 'phone', viewport: { width: 390, height: 844 }, colorScheme: 'light' },
  { name: 'phone-dark', viewport: { width: 390, height: 844 }, colorScheme: 'dark' },
  { name: 'desktop', viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
  { name: 'desktop-dark', viewport: { width: 1280, height: 900 }, colorScheme: 'dark' },
];

// Runs in the page.
function look() {
  const luminance = (colour) => {
    const linear = colour.match(/[\d.]+/g).slice(0, 3).map((text) => {
      const share = Number(text) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  const contrast = (colour) => {
    const [low, high] = [luminance(colour), paper].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const charts = [...document.querySelectorAll('figure')].map((figure) => {
    const svg = figure.querySelector('svg');
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll('text')];
    const beyond = [...svg.querySelectorAll('text,circle,line,polyline')].filter((part) => {
      const own = part.getBoundingClientRect();
      return own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1;
    });
    const drawn = {};
    for (const part of svg.querySelectorAll('circle,polyline')) {
      const arm = part.closest('[data-arm]').dataset.arm;
      const style = getComputedStyle(part);
      const colour = part.tagName === 'circle' ? style.fill : style.stroke;
      const visible = part.getBoundingClientRect().width > 0 && contrast(colour) > 2.5;
      drawn[arm] = (drawn[arm] ?? 0) + (visible ? 1 : 0);
    }
    return {
      ...figure.dataset,
      drawn,
      width: box.width,
      height: box.height,
      smallestText: Math.min(...texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * scale)),
      faintestText: Math.min(...texts.map((text) => contrast(getComputedStyle(text).fill))),
      beyond: beyond.map((part) => part.outerHTML.slice(0, 120)),
    };
  });
  return {
    paper,
    contrast: contrast(getComputedStyle(document.body).color),
    pageWidth: document.documentElement.scrollWidth,
    windowWidth: window.innerWidth,
    headings: [...document.querySelectorAll('h2,h3')].map((heading) => heading.textContent),
    rows: [...document.querySelectorAll('table')].map((table) => table.querySelectorAll('tr').length - 1),
    text: document.body.innerText,
    charts,
  };
}

(async () => {
  const timeout = 120_000; // Of a busy machine.
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'];
  const browser = await chromium.launch({ executablePath, args, timeout });
  const seen = [];
  for (const { name, ...options } of readers) {
    const page = await browser.newPage(options);
    const messages = [];
    const requests = [];
    page.on('console', (message) => messages.push(message.text()));
    page.on('pageerror', (error) => messages.push(String(error)));
    page.on('request', (request) => requests.push(request.url()));
    await page.goto(`file://${report}`, { waitUntil: 'networkidle', timeout });
    seen.push({ reader: name, messages, requests, ...(await page.evaluate(look)) });
    if (pictures) {
      await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true, timeout });
    }
    await page.close();
  }
  await browser.close();
  console.log(JSON.stringify(seen));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
