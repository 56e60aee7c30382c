// esbuild hands style sheets to the widgets as text.
declare module "*.css" {
  const text: string;
  export default text;
}
